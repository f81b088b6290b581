package loopdisk

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"aether/sandbox"
)

// roleVariable makes the test binary play a part instead of running tests.
const roleVariable = "LOOPDISK_TEST_ROLE"

var roles = map[string]func() error{
	// holds a mount until it is killed
	"hold": func() error {
		mount, err := Mount(os.Getenv("LOOPDISK_TEST_FILE"))
		if err != nil {
			return err
		}
		defer mount.Close()
		fmt.Println("held")
		select {}
	},
	"supported": func() error { return Supported(Least) },
}

func TestMain(m *testing.M) {
	role, ok := roles[os.Getenv(roleVariable)]
	if !ok {
		os.Exit(m.Run())
	}
	if err := role(); err != nil {
		fmt.Println(sandbox.ClassOf(err), err)
		os.Exit(1)
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// newDisk makes a disk with one directory in it, or skips where none can be made.
func newDisk(t *testing.T, size int64) (file string) {
	t.Helper()
	if err := Supported(size); err != nil {
		t.Skip(err)
	}
	contents := t.TempDir()
	check(t, os.Mkdir(filepath.Join(contents, "u"), 0o755))
	check(t, os.Chown(filepath.Join(contents, "u"), 1234, 5678))
	file = filepath.Join(t.TempDir(), "disk")
	check(t, Format(t.Context(), file, size, contents))
	return file
}

func mountDisk(t *testing.T, file string) *os.File {
	t.Helper()
	mount, err := Mount(file)
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skip(err)
	}
	check(t, err)
	t.Cleanup(func() { mount.Close() })
	return mount
}

// inside is a path on a mount that is in no namespace.
func inside(mount *os.File, name string) string {
	return fmt.Sprintf("/proc/self/fd/%d/%s", mount.Fd(), name)
}

// attached says how many loop devices a file is behind.
func attached(t *testing.T, file string) (count int) {
	t.Helper()
	devices, err := filepath.Glob("/sys/block/loop*/loop/backing_file")
	check(t, err)
	for _, device := range devices {
		text, err := os.ReadFile(device)
		if err == nil && strings.HasPrefix(strings.TrimSpace(string(text)), file) { // else it was detached meanwhile
			count++
		}
	}
	return count
}

// wantDetached gives the kernel time to finish what no program waits for.
func wantDetached(t *testing.T, file string) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); attached(t, file) > 0; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s is still behind a loop device", file)
		}
	}
}

func TestDiskHoldsItsBound(t *testing.T) {
	const size = 8 << 20
	file := newDisk(t, size)
	if taken := blocks(t, file); taken > size/8 {
		t.Errorf("an empty disk takes %d bytes", taken)
	}
	mount := mountDisk(t, file)
	var st syscall.Stat_t
	check(t, syscall.Stat(inside(mount, "u"), &st))
	if st.Uid != 1234 || st.Gid != 5678 {
		t.Errorf("its directory belongs to %d:%d", st.Uid, st.Gid)
	}
	out, err := os.Create(inside(mount, "u/file"))
	check(t, err)
	written, err := io.Copy(out, io.LimitReader(endless{}, 2*size))
	if !errors.Is(err, syscall.ENOSPC) || written < size*8/10 || written > size {
		t.Errorf("%d bytes were written, then %v", written, err)
	}
	check(t, out.Sync())
	check(t, out.Close())
	if taken := blocks(t, file); taken > size+64<<10 { // the host's own records of it
		t.Errorf("a full disk takes %d bytes", taken)
	}
	check(t, mount.Close())
	wantDetached(t, file)
}

// endless is content that does not compress to nothing.
type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(i) | 1
	}
	return len(p), nil
}

// blocks is what a file takes of the host's disk, in bytes.
func blocks(t *testing.T, file string) int64 {
	t.Helper()
	var st syscall.Stat_t
	check(t, syscall.Stat(file, &st))
	return st.Blocks * 512
}

// TestWhatIsWrittenStays: a disk is a disk, until its file is removed.
func TestWhatIsWrittenStays(t *testing.T) {
	file := newDisk(t, Least)
	mount := mountDisk(t, file)
	check(t, os.WriteFile(inside(mount, "u/kept"), []byte("kept"), 0o600))
	check(t, mount.Close())
	wantDetached(t, file)
	again := mountDisk(t, file)
	text, err := os.ReadFile(inside(again, "u/kept"))
	if err != nil || string(text) != "kept" {
		t.Errorf("read %q, %v", text, err)
	}
}

// TestManyAtOnce has all reach for the same free device.
func TestManyAtOnce(t *testing.T) {
	const count = 12
	mountDisk(t, newDisk(t, Least)) // or skips
	files := make([]string, count)
	for i := range files {
		files[i] = newDisk(t, Least)
	}
	mounts, failures := make([]*os.File, count), make([]error, count)
	var work sync.WaitGroup
	for i := range count {
		work.Go(func() { mounts[i], failures[i] = Mount(files[i]) })
	}
	work.Wait()
	check(t, errors.Join(failures...))
	for i, mount := range mounts {
		check(t, os.WriteFile(inside(mount, "u/name"), []byte(files[i]), 0o600))
	}
	for i, mount := range mounts {
		if text, err := os.ReadFile(inside(mount, "u/name")); err != nil || string(text) != files[i] {
			t.Errorf("disk %d holds %q, %v", i, text, err)
		}
		check(t, mount.Close())
	}
	for _, file := range files {
		wantDetached(t, file)
	}
}

func TestKilledHolderLeavesOnlyTheFile(t *testing.T) {
	file := newDisk(t, Least)
	check(t, mountDisk(t, file).Close()) // or skips
	wantDetached(t, file)
	holder := exec.Command("/proc/self/exe")
	holder.Env = append(os.Environ(), roleVariable+"=hold", "LOOPDISK_TEST_FILE="+file)
	out, err := holder.StdoutPipe()
	check(t, err)
	check(t, holder.Start())
	said := make([]byte, len("held\n"))
	if _, err := io.ReadFull(out, said); err != nil || attached(t, file) != 1 {
		t.Errorf("the holder says %q, %v; the file is behind %d devices", said, err, attached(t, file))
	}
	check(t, holder.Process.Kill())
	_ = holder.Wait() // killed, so always an error
	wantDetached(t, file)
}

func TestWhereThereAreNoDisks(t *testing.T) {
	want := func(t *testing.T, err error, says string) {
		t.Helper()
		var e *sandbox.Error
		if !errors.As(err, &e) || e.Class != sandbox.Unsupported || e.Field != "limits.disk" || !strings.Contains(e.Remedy, says) {
			t.Errorf("got %v", err)
		}
	}
	t.Run("too small", func(t *testing.T) {
		want(t, Supported(Least-1), "allow as many")
		want(t, Format(t.Context(), filepath.Join(t.TempDir(), "disk"), Least-1, t.TempDir()), "allow as many")
	})
	t.Run("no formatter", func(t *testing.T) {
		old := toolDirs
		t.Cleanup(func() { toolDirs = old })
		toolDirs = nil
		t.Setenv("PATH", "")
		file := filepath.Join(t.TempDir(), "disk")
		want(t, Format(t.Context(), file, Least, t.TempDir()), "install e2fsprogs")
		if _, err := os.Stat(file); !os.IsNotExist(err) {
			t.Errorf("the file is left: %v", err)
		}
	})
	t.Run("ordinary user", func(t *testing.T) {
		if os.Geteuid() != 0 {
			want(t, Supported(Least), "run aether as root")
			return
		}
		cmd := exec.Command("/proc/self/exe")
		cmd.Env = append(os.Environ(), roleVariable+"=supported")
		cmd.Dir = "/"
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 0x6ffe0001, Gid: 0x6ffe0001}}
		out, err := cmd.CombinedOutput()
		if err == nil || !strings.HasPrefix(string(out), "unsupported ") {
			t.Errorf("%v: %s", err, out)
		}
	})
}

// TestNoRoom: a disk that the host could not fill is refused, not promised.
func TestNoRoom(t *testing.T) {
	if err := Supported(Least); err != nil {
		t.Skip(err)
	}
	dir := t.TempDir()
	var st syscall.Statfs_t
	check(t, syscall.Statfs(dir, &st))
	for _, size := range []int64{int64(st.Blocks)*st.Bsize + 1, 1 << 62} {
		file := filepath.Join(dir, "disk")
		err := Format(t.Context(), file, size, t.TempDir())
		var e *sandbox.Error
		if !errors.As(err, &e) || e.Class != sandbox.Exhausted || e.Field != "limits.disk" || !e.Retry || e.Remedy == "" {
			t.Errorf("%d bytes: %v", size, err)
		}
		if _, err := os.Stat(file); !os.IsNotExist(err) {
			t.Errorf("the file is left: %v", err)
		}
	}
}

func TestCancelledFormatLeavesNothing(t *testing.T) {
	if err := Supported(Least); err != nil {
		t.Skip(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	file := filepath.Join(t.TempDir(), "disk")
	if err := Format(ctx, file, Least, t.TempDir()); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(file); !os.IsNotExist(err) {
		t.Errorf("the file is left: %v", err)
	}
}

// TestLastingDisk: what is written to it is there again, and attaching it twice gives
// one file system, also when nobody but an open file has kept the first.
func TestLastingDisk(t *testing.T) {
	if err := Supported(LeastLasting); err != nil {
		t.Skip(err)
	}
	dir := t.TempDir()
	file, at, also := filepath.Join(dir, "disk"), filepath.Join(dir, "at"), filepath.Join(dir, "also")
	check(t, FormatLasting(t.Context(), file, LeastLasting))
	check(t, errors.Join(os.Mkdir(at, 0o700), os.Mkdir(also, 0o700)))
	t.Cleanup(func() { Detach(at); Detach(also) })
	if err := Attach(file, at); errors.Is(err, errors.ErrUnsupported) {
		t.Skip(err)
	} else {
		check(t, err)
	}
	kept, err := os.Create(filepath.Join(at, "kept"))
	check(t, err)
	check(t, Attach(file, also))
	if n := attached(t, file); n != 1 {
		t.Errorf("it is behind %d devices", n)
	}
	check(t, errors.Join(Detach(at), Detach(also), Detach(also)))
	check(t, Attach(file, at)) // while it is still in use
	_, err = kept.WriteString("written")
	check(t, err)
	if text, err := os.ReadFile(filepath.Join(at, "kept")); err != nil || string(text) != "written" {
		t.Errorf("read %q, %v", text, err)
	}
	check(t, errors.Join(kept.Close(), Detach(at)))
	wantDetached(t, file)
	check(t, Attach(file, at))
	if text, err := os.ReadFile(filepath.Join(at, "kept")); err != nil || string(text) != "written" {
		t.Errorf("read %q, %v", text, err)
	}
	check(t, Detach(at))
	wantDetached(t, file)
}

func TestLastingDiskIsNotTiny(t *testing.T) {
	err := FormatLasting(t.Context(), filepath.Join(t.TempDir(), "disk"), LeastLasting-1)
	if sandbox.ClassOf(err) != sandbox.Unsupported {
		t.Errorf("got %v", err)
	}
}
