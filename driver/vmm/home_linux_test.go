package vmm

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"aether/sandbox"
)

// needRoot skips for ordinary users, whose monitors run as themselves.
func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 || !hasUsers() {
		t.Skip("only root gives monitors a user of their own")
	}
}

func testHome(t *testing.T, user *syscall.Credential) *home {
	t.Helper()
	h, err := newHome(t.Context(), t.TempDir(), nil, user)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.close(); err != nil {
			t.Error(err)
		}
	})
	return h
}

func testFile(t *testing.T, name, content string) *os.File {
	t.Helper()
	if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	return file
}

func wantContent(t *testing.T, name, want string) {
	t.Helper()
	if got, err := os.ReadFile(name); err != nil || string(got) != want {
		t.Errorf("%s: %q, %v", filepath.Base(name), got, err)
	}
}

// What machines share is linked, and readable by their monitors and nobody else.
func TestShare(t *testing.T) {
	needRoot(t)
	h := testHome(t, newUser())
	disk := testFile(t, filepath.Join(t.TempDir(), "disk"), "content")
	if err := h.share(disk, Disk); err != nil {
		t.Fatal(err)
	}
	shared := filepath.Join(h.path, Disk)
	wantContent(t, shared, "content")
	info, err := os.Stat(shared)
	if err != nil {
		t.Fatal(err)
	}
	stat := info.Sys().(*syscall.Stat_t)
	if info.Mode().Perm() != 0o640 || stat.Uid != 0 || stat.Gid != sharing {
		t.Errorf("mode %v, owner %d:%d", info.Mode(), stat.Uid, stat.Gid)
	}
	if original, err := disk.Stat(); err != nil || !os.SameFile(original, info) {
		t.Errorf("it was copied (%v)", err)
	}
}

// A file whose name is gone is linked by another, or copied.
func TestLinkOrCopy(t *testing.T) {
	dir := t.TempDir()
	file := testFile(t, filepath.Join(dir, "a"), "content")
	other := filepath.Join(dir, "b")
	if err := errors.Join(os.Link(file.Name(), other), os.Remove(file.Name())); err != nil {
		t.Fatal(err)
	}
	impostor := filepath.Join(dir, "impostor")
	testFile(t, impostor, "another")
	for n, c := range []struct {
		others []string
		same   bool
	}{{[]string{other}, true}, {[]string{impostor}, false}, {[]string{impostor, other}, true}, {nil, false}} {
		to := filepath.Join(dir, "to", string(rune('0'+n)))
		if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := linkOrCopy(file, to, c.others...); err != nil {
			t.Fatal(err)
		}
		wantContent(t, to, "content")
		was, err := file.Stat()
		is, failed := os.Stat(to)
		if errors.Join(err, failed) != nil || os.SameFile(was, is) != c.same {
			t.Errorf("%d: linked is %v, want %v", n, os.SameFile(was, is), c.same)
		}
	}
}

// take gives what the monitor wrote, and refuses everything that is not its own.
func TestTake(t *testing.T) {
	needRoot(t)
	h := testHome(t, newUser())
	to := filepath.Join(t.TempDir(), "state")
	foreign := filepath.Join(t.TempDir(), "secret")
	testFile(t, foreign, "secret")
	own := func(name string) error {
		return errors.Join(os.WriteFile(name, []byte("state"), 0o666), os.Chown(name, h.uid(), h.uid()))
	}
	for name, c := range map[string]struct {
		put func(name string) error
		ok  bool
	}{
		"a file":            {own, true},
		"nothing":           {func(string) error { return nil }, false},
		"a link":            {func(name string) error { return os.Symlink(foreign, name) }, false},
		"another's file":    {func(name string) error { return errors.Join(own(name), os.Chown(name, 12345, 12345)) }, false},
		"a second name":     {func(name string) error { return errors.Join(own(name), os.Link(name, name+"2")) }, false},
		"a pipe":            {func(name string) error { return exec.Command("mkfifo", "-m", "666", name).Run() }, false},
		"a directory":       {func(name string) error { return os.Mkdir(name, 0o700) }, false},
		"a name of another": {func(name string) error { return os.Link(foreign, name) }, false},
	} {
		if err := c.put(filepath.Join(h.path, Saved, "state")); err != nil {
			t.Fatal(err)
		}
		err := h.take("state", to)
		if c.ok != (err == nil) {
			t.Errorf("%s: %v", name, err)
		}
		info, statErr := os.Lstat(to)
		switch {
		case c.ok && (statErr != nil || info.Mode() != 0o600 || info.Sys().(*syscall.Stat_t).Uid != 0):
			t.Errorf("%s: %v, %v", name, info, statErr)
		case !c.ok && !errors.Is(statErr, fs.ErrNotExist):
			t.Errorf("%s: it was kept: %v", name, statErr)
		}
		wantContent(t, foreign, "secret")
		os.RemoveAll(to)
		os.RemoveAll(filepath.Join(h.path, Saved, "state2"))
	}
}

// A monitor that puts another directory in the place of its own gains nothing.
func TestSavedIsNotReplaced(t *testing.T) {
	h := testHome(t, nil)
	elsewhere := t.TempDir()
	testFile(t, filepath.Join(elsewhere, "state"), "of another")
	saved := filepath.Join(h.path, Saved)
	if err := errors.Join(os.Rename(saved, saved+"2"), os.Symlink(elsewhere, saved)); err != nil {
		t.Fatal(err)
	}
	if err := h.take("state", filepath.Join(t.TempDir(), "state")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("taken: %v", err)
	}
	if err := drop(h.saved, "state"); err != nil {
		t.Error(err)
	}
	wantContent(t, filepath.Join(elsewhere, "state"), "of another")
}

// The host speaks to the monitor's own sockets only.
func TestDialKnowsTheMonitor(t *testing.T) {
	h := testHome(t, nil)
	listener, err := net.Listen("unix", within(h.root, Socket))
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	conn, err := h.dial(t.Context(), Socket)
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
	// As if the monitor had put a link to a socket of the host's in its place.
	h.user = &syscall.Credential{Uid: uint32(os.Geteuid()) + 1}
	if _, err := h.dial(t.Context(), Socket); sandbox.ClassOf(err) != sandbox.Denied {
		t.Errorf("another user's socket: %v", err)
	}
	h.user = nil
}

// jailBelow is a jail that only says where its root will be.
type jailBelow struct{}

func (jailBelow) Root(base string) string { return filepath.Join(base, "program", "id", "root") }
func (jailBelow) Command(string, uint32, uint32, []string) []string {
	return nil
}

// In a jail the machine's directory is the jail's root, and goes with all above it.
func TestHomeInAJail(t *testing.T) {
	needRoot(t)
	parent, user := t.TempDir(), newUser()
	user.Gid = sharing
	h, err := newHome(t.Context(), parent, jailBelow{}, user)
	if err != nil {
		t.Fatal(err)
	}
	if h.path != filepath.Join(h.dir, "program/id/root") {
		t.Errorf("it is %s", h.path)
	}
	if err := h.write(Initramfs, []byte("a"), []byte("b")); err != nil {
		t.Error(err)
	}
	wantContent(t, filepath.Join(h.path, Initramfs), "ab")
	for _, name := range []string{"", Saved, Initramfs} {
		info, err := os.Stat(filepath.Join(h.path, name))
		if err != nil {
			t.Fatal(err)
		}
		if stat := info.Sys().(*syscall.Stat_t); stat.Uid != user.Uid || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%q: mode %v of user %d", name, info.Mode(), stat.Uid)
		}
	}
	if err := h.close(); err != nil {
		t.Error(err)
	}
	if entries, err := os.ReadDir(parent); err != nil || len(entries) != 0 {
		t.Errorf("left: %v, %v", entries, err)
	}
}
