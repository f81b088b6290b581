package cgroup

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"aether/internal/host/blockdev"
	"aether/internal/host/loopdisk"
	"aether/sandbox"
)

// slowest is a rate at which what these tests move takes some seconds.
const slowest = 1 << 20

// readAll reads a file from its disk in requests of so many bytes.
func readAll(args []string) error {
	var size int
	if _, err := fmt.Sscan(args[1], &size); err != nil {
		return err
	}
	file, err := os.OpenFile(args[0], os.O_RDONLY|syscall.O_DIRECT, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	fmt.Println("ready")
	_, err = io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{file}, aligned(size))
	return err
}

// aligned is memory as direct reads want it.
func aligned(size int) []byte {
	memory, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		panic(err)
	}
	return memory
}

// writeAll writes so many bytes as most programs do, and leaves the rest to the kernel.
func writeAll(args []string) error {
	var size int
	if _, err := fmt.Sscan(args[1], &size); err != nil {
		return err
	}
	return os.WriteFile(args[0], bytes.Repeat([]byte{1}, size), 0o600)
}

// rateDisk is a disk of its own with a file of so many bytes on it.
func rateDisk(t *testing.T, size int) (disk blockdev.Disk, dir string) {
	t.Helper()
	const room = 128 << 20
	if err := loopdisk.Supported(room); err != nil {
		t.Skip(err)
	}
	image := filepath.Join(t.TempDir(), "disk")
	check(t, loopdisk.Format(t.Context(), image, room, t.TempDir()))
	mount, err := loopdisk.Mount(image)
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skip(err)
	}
	check(t, err)
	t.Cleanup(func() { mount.Close() })
	system, err := blockdev.At(mount, "the disk")
	check(t, err)
	disks, err := blockdev.Disks([]blockdev.FileSystem{system}, true)
	if err != nil || len(disks) != 1 {
		t.Fatalf("%v, %v", disks, err)
	}
	dir = fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), mount.Fd())
	check(t, writeAll([]string{dir + "/file", fmt.Sprint(size)}))
	unix.Sync()
	return disks[0], dir
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// needRates skips where such rates are refused, as they have to be.
func needRates(t *testing.T, h *Hierarchy, r Rates) {
	t.Helper()
	err := h.EnforcesRates(r)
	if err == nil {
		return
	}
	var e *sandbox.Error
	if !errors.As(err, &e) || e.Class != sandbox.Unavailable || e.Field != r.field() || e.Reason == "" || e.Remedy == "" {
		t.Fatalf("refused by %v", err)
	}
	t.Skip(err)
}

func TestReadRateHolds(t *testing.T) { onEachLayout(t, readRateHolds) }

func readRateHolds(t *testing.T, o *Owner) {
	needRates(t, o.host, Rates{Read: slowest})
	disk, dir := rateDisk(t, 4<<20)
	took := func(g *Group) time.Duration {
		start := time.Now()
		if out, err := play(t, g, "read", dir+"/file", fmt.Sprint(64<<10)).Output(); err != nil {
			t.Fatalf("%q, %v", out, err)
		}
		return time.Since(start)
	}
	slow := group(t, o, Limits{})
	check(t, slow.SetRates(Rates{Read: slowest}, []blockdev.Disk{disk}))
	held := took(slow)
	free := quicker(held, func() time.Duration { return took(group(t, o, Limits{})) })
	if held < 3*time.Second || free >= held {
		t.Errorf("4 MiB at 1 MiB a second took %v, and %v without a limit", held, free)
	}
	check(t, slow.LiftRates())
	if lifted := quicker(held, func() time.Duration { return took(slow) }); lifted >= held {
		t.Errorf("without the limit it still took %v", lifted)
	}
}

// quicker is how long something takes that no rate holds. It is tried again where it took
// as long as what one holds: the host may have been busy.
func quicker(held time.Duration, try func() time.Duration) (took time.Duration) {
	for range 5 {
		if took = try(); took < held {
			break
		}
	}
	return took
}

// TestWriteRateHoldsOrIsRefused: what counts is what reaches the disk, whoever has it
// written there.
func TestWriteRateHoldsOrIsRefused(t *testing.T) { onEachLayout(t, writeRateHoldsOrIsRefused) }

func writeRateHoldsOrIsRefused(t *testing.T, o *Owner) {
	needRates(t, o.host, Rates{Write: slowest})
	disk, dir := rateDisk(t, 0)
	root, err := os.Open(dir)
	check(t, err)
	defer root.Close()
	took := func(g *Group, name string) time.Duration {
		start := time.Now()
		check(t, play(t, g, "write", dir+"/"+name, fmt.Sprint(6<<20)).Run())
		check(t, unix.Syncfs(int(root.Fd())))
		return time.Since(start)
	}
	slow := group(t, o, Limits{Memory: 256 << 20})
	check(t, slow.SetRates(Rates{Write: slowest}, []blockdev.Disk{disk}))
	held := took(slow, "slow")
	free := quicker(held, func() time.Duration { return took(group(t, o, Limits{Memory: 256 << 20}), "free") })
	if held < 4*time.Second || free >= held {
		t.Errorf("6 MiB at 1 MiB a second took %v, and %v without a limit", held, free)
	}
}

// TestVersion1RefusesWriteRates: there, what is written later is nobody's.
func TestVersion1RefusesWriteRates(t *testing.T) {
	h := &Hierarchy{Layout: V1, trees: []tree{{holds: limiting}}}
	var e *sandbox.Error
	err := h.EnforcesRates(Rates{Read: slowest, Write: slowest})
	if !errors.As(err, &e) || e.Class != sandbox.Unavailable || e.Field != writeField || !strings.Contains(e.Remedy, "version 2") {
		t.Errorf("got %v", err)
	}
	check(t, h.EnforcesRates(Rates{Read: slowest}))
	apart := &Hierarchy{Layout: Hybrid, trees: []tree{{holds: Memory}, {holds: IO, unified: true}}}
	if err := apart.EnforcesRates(Rates{Write: slowest}); !errors.As(err, &e) || e.Field != writeField {
		t.Errorf("with memory in another tree: %v", err)
	}
}

func TestRatesAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		h     *Hierarchy
		r     Rates
		class sandbox.Class
		field string
	}{
		"negative read":  {&Hierarchy{}, Rates{Read: -1}, sandbox.Invalid, readField},
		"slow write":     {&Hierarchy{}, Rates{Write: sandbox.MinDiskRate - 1}, sandbox.Invalid, writeField},
		"no controller":  {&Hierarchy{}, Rates{Read: slowest, Write: slowest}, sandbox.Unavailable, readField},
		"none for write": {&Hierarchy{}, Rates{Write: slowest}, sandbox.Unavailable, writeField},
	} {
		var e *sandbox.Error
		if err := c.h.EnforcesRates(c.r); !errors.As(err, &e) || e.Class != c.class || e.Field != c.field {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestKilledGroupDoesNotWaitForItsDisk: a process that waits for a disk does not heed
// a signal, and its rate is not to hold up those who remove it.
func TestKilledGroupDoesNotWaitForItsDisk(t *testing.T) {
	onEachLayout(t, killedGroupDoesNotWait)
}

func killedGroupDoesNotWait(t *testing.T, o *Owner) {
	wantEnd := func(what string, cmd *exec.Cmd, end func() error) {
		start := time.Now()
		if err, took := end(), time.Since(start); err != nil || took > time.Minute {
			t.Errorf("the end of the %s took %v: %v", what, took, err)
		}
		if err := cmd.Wait(); err == nil {
			t.Errorf("%s: the process was not killed", what)
		}
	}
	g, cmd := slowReader(t, o)
	wantEnd("group", cmd, func() error { return errors.Join(g.Kill(t.Context()), g.Remove(t.Context())) })
	_, cmd = slowReader(t, o)
	wantEnd("program", cmd, func() error { // as Reap does
		groups, err := recorded(o.lock)
		return errors.Join(err, endAll(t.Context(), groups))
	})
}

// slowReader is a group with a process that waits for its disk, for minutes.
func slowReader(t *testing.T, o *Owner) (*Group, *exec.Cmd) {
	t.Helper()
	needRates(t, o.host, Rates{Read: sandbox.MinDiskRate})
	disk, dir := rateDisk(t, 32<<20)
	g := group(t, o, Limits{})
	check(t, g.SetRates(Rates{Read: sandbox.MinDiskRate}, []blockdev.Disk{disk}))
	cmd := play(t, g, "read", dir+"/file", fmt.Sprint(16<<20))
	out, err := cmd.StdoutPipe()
	check(t, err)
	check(t, cmd.Start())
	_, err = io.ReadFull(out, make([]byte, len("ready\n")))
	check(t, err)
	time.Sleep(100 * time.Millisecond) // it says so before it asks
	return g, cmd
}

// TestReusedGroupHasNoRates: those of its last owner, who may have ended by itself,
// are not the next one's.
func TestReusedGroupHasNoRates(t *testing.T) {
	g, dir := unifiedGroup(t, map[string]string{"cgroup.events": "populated 0\n", "cgroup.freeze": "",
		"io.max": "8:16 rbps=1048576 wbps=max riops=max wiops=max\n"})
	g.rated = true
	next, err := g.renewed(t.Context())
	if err != nil || next == nil || next.rated {
		t.Fatalf("%+v, %v", next, err)
	}
	if got, err := os.ReadFile(filepath.Join(dir, "io.max")); err != nil || !strings.HasPrefix(string(got), "8:16 rbps=max wbps=max") {
		t.Errorf("the rates are %q, %v", got, err)
	}
}

func TestUnifiedRates(t *testing.T) {
	g, dir := unifiedGroup(t, map[string]string{"io.max": ""})
	g.owner.host.trees[0].base, g.owner.name = filepath.Dir(dir), "g"
	for _, d := range []string{filepath.Dir(dir), dir} {
		put(t, filepath.Join(d, "cgroup.subtree_control"), "")
	}
	disk := blockdev.Disk{Major: 8, Minor: 16}
	for want, r := range map[string]Rates{
		"8:16 rbps=1048576 wbps=max":     {Read: 1 << 20},
		"8:16 rbps=max wbps=2097152":     {Write: 2 << 20},
		"8:16 rbps=1048576 wbps=2097152": {Read: 1 << 20, Write: 2 << 20},
	} {
		put(t, filepath.Join(dir, "io.max"), "")
		check(t, g.SetRates(r, []blockdev.Disk{disk}))
		if got, _ := os.ReadFile(filepath.Join(dir, "io.max")); string(got) != want {
			t.Errorf("%+v: %q, want %q", r, got, want)
		}
	}
	for _, d := range []string{filepath.Dir(dir), dir} {
		if got, _ := os.ReadFile(filepath.Join(d, "cgroup.subtree_control")); string(got) != "+io " {
			t.Errorf("%s: %q", d, got)
		}
	}
}

// TestKernelWithoutRates: the controller may be there without what holds rates.
func TestKernelWithoutRates(t *testing.T) {
	g, dir := unifiedGroup(t, map[string]string{"cgroup.subtree_control": ""})
	g.owner.name = "g"
	put(t, filepath.Join(filepath.Dir(dir), "cgroup.subtree_control"), "")
	var e *sandbox.Error
	err := g.SetRates(Rates{Write: slowest}, []blockdev.Disk{{Major: 8}})
	if !errors.As(err, &e) || e.Class != sandbox.Unavailable || e.Field != writeField || !strings.Contains(e.Remedy, "BLK_DEV_THROTTLING") {
		t.Errorf("got %v", err)
	}
}
