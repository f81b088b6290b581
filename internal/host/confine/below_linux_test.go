package confine

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"aether/internal/host/spawn"

	"golang.org/x/sys/unix"
)

// TestNothingBelowTheRoot is what a cell's mount namespace has below its root, for somebody
// with every right in it: no path leads there, and who takes the root away finds what a bare
// stage has, which cannot be changed or used.
func TestNothingBelowTheRoot(t *testing.T) {
	cell := bootCell(t)
	if cell.identity.Single {
		t.Skip("an ordinary user's cell is left by pivot_root, and its mounts are the user's own")
	}
	mounts, err := os.Open(fmt.Sprintf("/proc/%d/ns/mnt", cell.Pid()))
	if err != nil {
		t.Fatal(err)
	}
	defer mounts.Close()
	thread, err := spawn.NewThread(func() error { return os.NewSyscallError("unshare", unix.Unshare(unix.CLONE_FS)) })
	if err != nil {
		t.Fatal(err)
	}
	defer thread.Close()
	if err := thread.Do(func() error { lookBelow(t, int(mounts.Fd())); return nil }); err != nil {
		t.Error(err)
	}
}

func lookBelow(t *testing.T, mounts int) {
	must := func(what string, err error) bool {
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
		return err == nil
	}
	enter := func() bool { return must("setns", unix.Setns(mounts, unix.CLONE_NEWNS)) }
	if !enter() {
		return
	}
	root, err := unix.Open("/", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if !must("open", err) {
		return
	}
	defer unix.Close(root)
	// The way out of every chroot: up from where one was before it.
	if !must("chroot", unix.Chroot("/tmp")) || !must("fchdir", unix.Fchdir(root)) || !must("chdir", unix.Chdir("../../..")) {
		return
	}
	var here, there unix.Stat_t
	if must("stat", unix.Stat(".", &here)) && must("fstat", unix.Fstat(root, &there)) && (here.Dev != there.Dev || here.Ino != there.Ino) {
		t.Errorf("up from the root is another directory: %v", names("."))
	}
	if !enter() || !must("umount", unix.Unmount("/", unix.MNT_DETACH)) || !enter() {
		return
	}
	if err := os.WriteFile("/new", nil, 0o600); !errors.Is(err, unix.EROFS) {
		t.Errorf("a file made there: %v", err)
	}
	if !must("stat", unix.Stat("/", &here)) {
		return
	}
	found := 0
	must("walk", filepath.WalkDir("/", func(name string, entry os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		found++
		var st unix.Stat_t
		if err := unix.Lstat(name, &st); err != nil || st.Dev != here.Dev {
			t.Errorf("%s is of another file system (%v)", name, err)
		}
		if !entry.IsDir() && (!entry.Type().IsRegular() || st.Size > 0) {
			t.Errorf("%s is no directory and no empty file: %v, of %d bytes", name, entry.Type(), st.Size)
		}
		return nil
	}))
	if found < 5 || found > 100 {
		t.Errorf("%d files are there: %v", found, names("/"))
	}
}

func names(dir string) (list []string) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		list = append(list, e.Name())
	}
	return list
}
