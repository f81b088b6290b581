package cell_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"aether/internal/host/loopdisk"
	"aether/sandbox"
)

const (
	// slowly is a rate at which a few megabytes take seconds.
	slowly = 1 << 20
	// readSlowly reads 4 MiB from the disk of the cell's writes, past all caches.
	readSlowly  = "dd if=/home/user/file of=/dev/null bs=128k iflag=direct 2>/dev/null"
	writeSynced = "dd if=/dev/zero of=/home/user/file bs=1M count=4 conv=fsync 2>/dev/null"
)

// ratedSpec is a cell on a disk of its own.
func ratedSpec(read, write int64) sandbox.Spec {
	spec := boundedSpec(64 << 20)
	spec.Limits.DiskReadRate, spec.Limits.DiskWriteRate = read, write
	return spec
}

// newRated makes a cell with rates, or skips where they are refused, as they have to
// be: by name, with the reason and what would mend it.
func newRated(t *testing.T, driver sandbox.Driver, spec sandbox.Spec, field string) sandbox.Instance {
	t.Helper()
	instance, err := driver.Create(t.Context(), spec)
	if err == nil {
		t.Cleanup(func() { destroy(t, instance) })
		return instance
	}
	var e *sandbox.Error
	if errors.As(err, &e) && e.Field == "limits.disk" {
		t.Skip(err) // there are no loop devices
	}
	if !errors.As(err, &e) || e.Class != sandbox.Unavailable || e.Field != field || e.Reason == "" || e.Remedy == "" {
		t.Fatalf("refused by %v", err)
	}
	t.Skip(err)
	return nil
}

func timed(t *testing.T, instance sandbox.Instance, script string) time.Duration {
	t.Helper()
	began := time.Now()
	sh(t, instance, script)
	return time.Since(began)
}

// faster is timed for what has no limit. It is tried again where it took as long as what
// has one: the host may have been busy.
func faster(t *testing.T, held time.Duration, instance sandbox.Instance, script string) (took time.Duration) {
	t.Helper()
	for range 5 {
		if took = timed(t, instance, script); took < held {
			break
		}
	}
	return took
}

func TestDiskReadRate(t *testing.T) {
	driver, _ := newDriver(t)
	slow := newRated(t, driver, ratedSpec(slowly, 0), "limits.disk_read_rate")
	free := newRated(t, driver, ratedSpec(0, 0), "")
	sh(t, slow, writeSynced)
	sh(t, free, writeSynced)
	held := timed(t, slow, readSlowly)
	if unheld := faster(t, held, free, readSlowly); held < 3*time.Second || unheld >= held {
		t.Errorf("4 MiB at 1 MiB a second took %v, and %v without a limit", held, unheld)
	}
}

// TestDiskReadRateOfMounts: what is mounted in a directory that is shown is on another
// disk than that.
func TestDiskReadRateOfMounts(t *testing.T) {
	needRoot(t, "a mount of its own")
	driver, _ := newDriver(t)
	dir, point := t.TempDir(), "/mnt/below"
	mountOwnDisk(t, filepath.Join(dir, "below"))
	spec := sandbox.Spec{Mounts: []sandbox.Mount{{Source: dir, Target: "/mnt"}}, Limits: sandbox.Limits{DiskReadRate: slowly}}
	instance := newRated(t, driver, spec, "limits.disk_read_rate")
	if took := timed(t, instance, "dd if="+point+"/file of=/dev/null bs=128k iflag=direct 2>/dev/null"); took < 3*time.Second {
		t.Errorf("4 MiB at 1 MiB a second took %v", took)
	}
}

// mountOwnDisk mounts an ext4 with a file of 4 MiB at a path.
func mountOwnDisk(t *testing.T, point string) {
	t.Helper()
	const room = 16 << 20
	if err := loopdisk.Supported(room); err != nil {
		t.Skip(err)
	}
	contents, file := t.TempDir(), filepath.Join(t.TempDir(), "disk")
	if err := errors.Join(os.Mkdir(point, 0o755), os.WriteFile(filepath.Join(contents, "file"), bytes.Repeat([]byte("no hole "), 4<<17), 0o644),
		loopdisk.Format(t.Context(), file, room, contents)); err != nil {
		t.Fatal(err)
	}
	hostCommand(t, "mount", "-o", "loop", file, point)
	t.Cleanup(func() { hostCommand(t, "umount", point) })
}

func hostCommand(t *testing.T, name string, args ...string) {
	t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %q: %v: %s", name, args, err, out)
	}
}

func TestDiskRateOfAnOverlayIsRefused(t *testing.T) {
	needRoot(t, "a mount of its own")
	driver, _ := newDriver(t)
	lower, upper, work, point := t.TempDir(), t.TempDir(), t.TempDir(), t.TempDir()
	hostCommand(t, "mount", "-t", "overlay", "overlay", "-o", fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s", lower, upper, work), point)
	t.Cleanup(func() { hostCommand(t, "umount", point) })
	spec := sandbox.Spec{Mounts: []sandbox.Mount{{Source: point, Target: "/mnt"}}, Limits: sandbox.Limits{DiskReadRate: slowly}}
	newRated(t, driver, sandbox.Spec{Limits: spec.Limits}, "limits.disk_read_rate")
	_, err := driver.Create(t.Context(), spec)
	wantClass(t, err, sandbox.Unavailable, "limits.disk_read_rate")
	if !strings.Contains(err.Error(), "/mnt") || !strings.Contains(err.Error(), "overlay") {
		t.Errorf("%v does not say what cannot be held", err)
	}
}

// TestDiskWriteRate: what is written without waiting for the disk must not get there
// faster either.
func TestDiskWriteRate(t *testing.T) {
	driver, _ := newDriver(t)
	slow := newRated(t, driver, ratedSpec(0, slowly), "limits.disk_write_rate")
	free := newRated(t, driver, ratedSpec(0, 0), "")
	for name, script := range map[string]string{
		"with fsync":  writeSynced,
		"past caches": "dd if=/dev/zero of=/home/user/file bs=128k count=32 oflag=direct 2>/dev/null",
		"by others":   "dd if=/dev/zero of=/home/user/file bs=1M count=4 2>/dev/null; sync",
	} {
		held := timed(t, slow, script)
		if unheld := faster(t, held, free, script); held < 3*time.Second || unheld >= held {
			t.Errorf("%s: 4 MiB at 1 MiB a second took %v, and %v without a limit", name, held, unheld)
		}
	}
}

// TestEndOfASlowCell: a process that waits for its disk cannot be killed; a cell with
// such ones ends all the same.
func TestEndOfASlowCell(t *testing.T) {
	for name, c := range map[string]struct {
		spec          sandbox.Spec
		field, script string
	}{
		"reading": {ratedSpec(sandbox.MinDiskRate, 0), "limits.disk_read_rate", "dd if=/home/user/file of=/dev/null bs=32M iflag=direct"},
		"writing": {ratedSpec(0, sandbox.MinDiskRate), "limits.disk_write_rate", "dd if=/dev/zero of=/home/user/new bs=1M count=16 conv=fsync"},
	} {
		t.Run(name, func(t *testing.T) {
			driver, dir := newDriver(t)
			instance := newRated(t, driver, c.spec, c.field)
			if name == "reading" {
				sh(t, instance, "dd if=/dev/zero of=/home/user/file bs=1M count=32 2>/dev/null; sync")
			}
			start(t, instance, c.script)
			time.Sleep(300 * time.Millisecond) // it is about to wait for minutes
			began := time.Now()
			destroy(t, instance)
			if took := time.Since(began); took > patience(5*time.Second) {
				t.Errorf("its end took %v", took)
			}
			wantNoDisk(t, dir)
		})
	}
}

// TestForkHasARate: that of its source, or the one that is asked for.
func TestForkHasARate(t *testing.T) {
	driver, _ := newDriver(t)
	source := newRated(t, driver, ratedSpec(slowly, 0), "limits.disk_read_rate")
	if _, ok := source.(sandbox.Forker); !ok {
		t.Skip("cells are not forked on this architecture")
	}
	sh(t, source, writeSynced)
	children := forkInto(t, source, sandbox.Spec{}, sandbox.Spec{Limits: sandbox.Limits{DiskReadRate: 64 * slowly}})
	defer destroy(t, children[0])
	defer destroy(t, children[1])
	own := timed(t, children[0], "sync; "+readSlowly)
	if other := faster(t, own, children[1], "sync; "+readSlowly); own < 3*time.Second || other >= own {
		t.Errorf("4 MiB took %v at the source's 1 MiB a second, and %v at 64", own, other)
	}
}
