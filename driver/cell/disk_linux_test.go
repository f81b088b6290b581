package cell_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"aether/driver/cell"
	"aether/guest"
	"aether/image"
	"aether/sandbox"
)

// onDiskSpec is a cell whose writes are on disk.
var onDiskSpec = sandbox.Spec{Limits: sandbox.Limits{DiskBacked: true}}

// filesBelow lists the regular files in a directory.
func filesBelow(t *testing.T, dir string) (found []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Type().IsRegular() {
			found = append(found, path)
		}
		return nil // a directory that cannot be read, or is gone, holds nothing for us
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestWritesOnDisk(t *testing.T) {
	driver, dir := newDriver(t)
	instance, err := driver.Create(t.Context(), onDiskSpec)
	if err != nil {
		t.Fatal(err)
	}
	got, err := try(t.Context(), client(t, instance), shell("echo kept > /home/user/file; mkdir /tmp/closed; chmod 0 /tmp/closed; mv /home/user/file /home/user/moved; cat /home/user/moved; df -P /dev/shm | tail -1"))
	if err != nil || !strings.HasPrefix(got.stdout, "kept\n") || !strings.Contains(got.stdout, "tmpfs") {
		t.Errorf("%+v, %v", got, err)
	}
	found := len(loops(t, dir)) == 1
	for _, path := range filesBelow(t, dir) {
		found = found || strings.HasSuffix(path, "/u/home/user/moved")
	}
	if !found {
		t.Errorf("the file is not on disk: %v", filesBelow(t, dir))
	}
	destroy(t, instance)
	wantNoDisk(t, dir)
}

// TestOnDiskIsBoundedByDefault: bytes and files, where the host can hold that.
func TestOnDiskIsBoundedByDefault(t *testing.T) {
	const most = 10 << 30
	driver, _ := newDriver(t)
	destroy(t, newBounded(t, driver, 4<<20)) // or there is no loop device here
	instance := create(t, driver, onDiskSpec)
	stats, err := instance.Stats(t.Context())
	if err != nil || stats.DiskFreeBytes == nil || *stats.DiskFreeBytes < 4<<20 || *stats.DiskFreeBytes > most {
		t.Errorf("%+v, %v", stats, err)
	}
	if files := sh(t, instance, "stat -f -c %c /"); len(files) < 3 || len(files) > 7 {
		t.Errorf("it may have %s files", files)
	}
}

// boundedSpec is a cell that may write so much, to disk.
func boundedSpec(bytes int64) sandbox.Spec {
	return sandbox.Spec{Limits: sandbox.Limits{DiskBacked: true, DiskBytes: bytes}}
}

// newBounded makes a cell with a bounded disk, or skips on hosts that give none.
func newBounded(t *testing.T, driver sandbox.Driver, bytes int64) sandbox.Instance {
	t.Helper()
	needRoot(t, "loop device")
	instance, err := driver.Create(t.Context(), boundedSpec(bytes))
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { destroy(t, instance) })
	return instance
}

// loops are the files below a directory that are behind a loop device.
func loops(t *testing.T, dir string) (found []string) {
	t.Helper()
	devices, err := filepath.Glob("/sys/block/loop*/loop/backing_file")
	if err != nil {
		t.Fatal(err)
	}
	for _, device := range devices {
		file, err := os.ReadFile(device)
		if err == nil && strings.HasPrefix(string(file), dir) { // else it was detached meanwhile
			found = append(found, strings.TrimSpace(string(file)))
		}
	}
	return found
}

// wantNoDisk gives the kernel time to unmount what has no namespace any more.
func wantNoDisk(t *testing.T, dir string) {
	t.Helper()
	if !eventually(10*time.Second, func() bool { return len(loops(t, dir)) == 0 }) {
		t.Errorf("loop devices are left: %q", loops(t, dir))
	}
	if files := diskFiles(t, dir); len(files) > 0 {
		t.Errorf("files are left: %q", files)
	}
}

// diskFiles are those of disks, besides their locks.
func diskFiles(t *testing.T, dir string) []string {
	t.Helper()
	return slices.DeleteFunc(filesBelow(t, filepath.Join(dir, "disks")), func(f string) bool { return strings.HasSuffix(f, ".lock") })
}

func TestBoundOnDisk(t *testing.T) {
	const bound = 8 << 20
	driver, dir := newDriver(t)
	for name, script := range map[string]string{
		"own layer": "cd /home/user; head -c 16M /dev/zero > file",
		"tmp":       "head -c 16M /dev/urandom > /tmp/file",
		"inodes":    "cd /tmp; i=0; while [ $i -lt 20000 ]; do : > $i || exit 1; i=$((i + 1)); done",
	} {
		t.Run(name, func(t *testing.T) {
			instance := newBounded(t, driver, bound)
			wantReached(t, instance, false, bound)
			got, err := try(t.Context(), client(t, instance), shell(script))
			if err != nil || got.Code == 0 || !strings.Contains(got.stderr, "No space left") && !strings.Contains(got.stderr, "annot create") {
				t.Errorf("%+v, %v", got, err)
			}
			wantReached(t, instance, true, bound)
			for _, file := range loops(t, dir) {
				wantNoMoreThan(t, file, bound)
			}
			sh(t, instance, "rm -rf /tmp/* /home/user/*; sync; echo small > /tmp/again")
			wantReached(t, instance, false, bound)
			destroy(t, instance)
			wantNoDisk(t, dir)
		})
	}
}

// wantReached holds the statistics to what is so.
func wantReached(t *testing.T, instance sandbox.Instance, full bool, bound int64) {
	t.Helper()
	stats, err := instance.Stats(t.Context())
	if err != nil || stats.DiskBytes == nil || stats.DiskFreeBytes == nil {
		t.Fatalf("%+v, %v", stats, err)
	}
	if *stats.DiskBytes+*stats.DiskFreeBytes > bound || !full && *stats.DiskFreeBytes < bound*8/10 {
		t.Errorf("%d bytes are used and %d free, of %d", *stats.DiskBytes, *stats.DiskFreeBytes, bound)
	}
	if got := slices.Contains(stats.Reached(), "disk"); got != full {
		t.Errorf("full %v, but reached %v with %d bytes free", full, stats.Reached(), *stats.DiskFreeBytes)
	}
}

// wantNoMoreThan looks at what a file takes of the host's disk.
func wantNoMoreThan(t *testing.T, file string, bound int64) {
	t.Helper()
	info, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	if taken := info.Sys().(*syscall.Stat_t).Blocks * 512; taken > bound+64<<10 { // the host's own records of it
		t.Errorf("%s takes %d bytes, more than %d", file, taken, bound)
	}
}

func TestUploadToAFullBoundedDiskIsExhausted(t *testing.T) {
	driver, _ := newDriver(t)
	instance := newBounded(t, driver, 4<<20)
	err := client(t, instance).Write(t.Context(), "/tmp/file", strings.NewReader(strings.Repeat("x", 8<<20)))
	wantClass(t, err, sandbox.Exhausted, "")
}

// TestBoundedDiskIsNotMemory: what is written to disk may be more than the cell
// has of memory.
func TestBoundedDiskIsNotMemory(t *testing.T) {
	driver, _ := newDriver(t)
	destroy(t, newBounded(t, driver, 4<<20))
	spec := boundedSpec(256 << 20)
	spec.Limits.MemoryBytes = 48 << 20
	instance := create(t, driver, spec)
	if got := sh(t, instance, "head -c 160M /dev/urandom > /tmp/a && cksum < /tmp/a > /tmp/sum && cksum < /tmp/a | cmp - /tmp/sum && stat -c %s /tmp/a"); got != "167772160" {
		t.Errorf("%q", got)
	}
	stats, err := instance.Stats(t.Context())
	if err != nil || stats.OOMKills == nil || *stats.OOMKills > 0 {
		t.Errorf("%+v, %v", stats, err)
	}
}

func TestManyBoundedDisksAtOnce(t *testing.T) {
	driver, dir := newDriver(t)
	destroy(t, newBounded(t, driver, 4<<20))
	before := takeCensus(t, dir)
	const count = 12
	alive := make([]sandbox.Instance, count)
	spread(count, func(n int) {
		var err error
		if alive[n], err = driver.Create(t.Context(), boundedSpec(4<<20)); err != nil {
			t.Errorf("cell %d: %v", n, err)
		}
	})
	if t.Failed() {
		t.FailNow()
	}
	if got := loops(t, dir); len(got) != count {
		t.Errorf("%d cells have the disks %q", count, got)
	}
	for n, instance := range alive {
		sh(t, instance, fmt.Sprintf("echo %d > /tmp/n", n))
	}
	for n, instance := range alive {
		if got := sh(t, instance, "cat /tmp/n"); got != strconv.Itoa(n) {
			t.Errorf("cell %d reads %q", n, got)
		}
	}
	spread(count, func(n int) { destroy(t, alive[n]) })
	wantNoDisk(t, dir)
	wantNoGrowth(t, before, dir)
}

// boundedRole is a program that has filled a bounded disk and is then killed.
const boundedRole = "bounded"

func holdBounded() error {
	driver := cell.New(cell.Options{RunDir: os.Getenv(churnRunDir),
		Images: func() (*image.Store, error) { return image.Open(os.Getenv(churnStore)) }})
	instance, err := driver.Create(context.Background(), boundedSpec(16<<20))
	if err != nil {
		return err
	}
	c := guest.NewClient(instance.Dial, guest.ClientOptions{})
	if _, err := try(context.Background(), c, shell("head -c 8M /dev/urandom > /tmp/file; setsid sleep 1000 < /dev/null > /dev/null 2>&1 & exit 0")); err != nil {
		return err
	}
	fmt.Println("ready")
	select {}
}

func TestKilledProgramLeavesNoBoundedDisk(t *testing.T) {
	driver, _ := newDriver(t)
	destroy(t, newBounded(t, driver, 4<<20)) // makes the image
	runDir := filepath.Join(t.TempDir(), "run")
	cmd, stderr := exec.Command("/proc/self/exe"), &strings.Builder{}
	cmd.Env = append(os.Environ(), roleVariable+"="+boundedRole, churnStore+"="+filepath.Join(scratch, "images"), churnRunDir+"="+runDir)
	cmd.Stderr = stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(out, make([]byte, len("ready\n"))); err != nil {
		t.Errorf("%v: %s", err, stderr)
	}
	if got := loops(t, runDir); len(got) != 1 {
		t.Errorf("the living program has the disks %q", got)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // killed, so always an error
	next := cell.New(optionsIn(runDir, 0))
	// The processes of its cell, which hold the disk, may still be dying.
	reaped := 0
	if !eventually(20*time.Second, func() bool {
		count, err := next.Reap(t.Context())
		if err != nil {
			t.Fatalf("reap: %v", err)
		}
		reaped += count
		return reaped > 0 && len(diskFiles(t, runDir)) == 0
	}) {
		t.Errorf("%d are reaped", reaped)
	}
	wantNoDisk(t, runDir)
}

func TestBoundsOnDiskThatAreUnsupported(t *testing.T) {
	driver, dir := newDriver(t)
	size := int64(1 << 20) // too small for anybody
	if ordinary() {
		size = 1 << 30
	}
	_, err := driver.Create(t.Context(), boundedSpec(size))
	wantClass(t, err, sandbox.Unsupported, "limits.disk")
	var e *sandbox.Error
	if !errors.As(err, &e) || e.Remedy == "" {
		t.Errorf("no remedy is given: %v", err)
	}
	wantNoDisk(t, dir)
}

func TestExplainWithADisk(t *testing.T) {
	driver, dir := newDriver(t)
	specs := []sandbox.Spec{onDiskSpec}
	if !ordinary() {
		destroy(t, newBounded(t, driver, 4<<20))
		specs = append(specs, boundedSpec(4<<20))
	}
	for _, spec := range specs {
		var text strings.Builder
		if err := driver.Explain(t.Context(), &text, spec, []string{"/bin/true"}); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(text.String(), `"/t", 0x4)`) && !strings.Contains(text.String(), `"/t", MOVE`) {
			t.Errorf("the disk is not attached:\n%s", text.String())
		}
	}
	wantNoDisk(t, dir)
}
