package inroot

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"aether/internal/soak"
)

// place makes a root with a neighbour that must never be reached.
func place(t *testing.T) (root *Root, inside, outside string) {
	t.Helper()
	base := t.TempDir()
	inside, outside = filepath.Join(base, "root"), filepath.Join(base, "outside")
	must(t, os.Mkdir(inside, 0o755))
	must(t, os.Mkdir(outside, 0o755))
	must(t, os.WriteFile(filepath.Join(outside, "canary"), []byte("canary"), 0o644))
	root, err := Open(inside)
	must(t, err)
	t.Cleanup(func() { root.Close() })
	return root, inside, outside
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestNoPathLeadsOut(t *testing.T) {
	root, inside, outside := place(t)
	canary := filepath.Join(outside, "canary")
	must(t, os.Symlink(canary, filepath.Join(inside, "absolute")))
	must(t, os.Symlink("../outside/canary", filepath.Join(inside, "relative")))
	must(t, os.Symlink("../../../../../../.."+canary, filepath.Join(inside, "far")))
	must(t, os.Symlink(outside, filepath.Join(inside, "dir")))
	must(t, os.Symlink("/proc/self/root", filepath.Join(inside, "proc")))

	for _, name := range []string{
		"absolute", "relative", "far", "dir/canary", "../outside/canary", "/../outside/canary",
		"dir/../../outside/canary", canary, "proc" + canary,
	} {
		if f, err := root.Open(name, os.O_RDONLY, 0); err == nil {
			f.Close()
			t.Errorf("%s was opened", name)
		}
		if _, err := root.Stat(name); err == nil {
			t.Errorf("%s was found", name)
		}
		if p, err := root.Place(name); err == nil {
			if err := p.Mkdir(0o755); err == nil {
				t.Logf("%s: made a directory inside", name)
			}
			p.Close()
		}
	}
	if data, err := os.ReadFile(canary); err != nil || string(data) != "canary" {
		t.Errorf("the canary is %q, %v", data, err)
	}
	if names, _ := os.ReadDir(outside); len(names) != 1 {
		t.Errorf("something was made outside: %v", names)
	}
}

func TestMagicLinksAreRefused(t *testing.T) {
	root, err := Open("/")
	must(t, err)
	defer root.Close()
	for _, name := range []string{"/proc/self/root/etc/passwd", "/proc/self/fd/0", "/proc/self/cwd"} {
		if f, err := root.Open(name, os.O_RDONLY, 0); !errors.Is(err, syscall.ELOOP) {
			f.Close()
			t.Errorf("%s: %v, want ELOOP", name, err)
		}
	}
}

func TestLinksResolveInside(t *testing.T) {
	root, inside, _ := place(t)
	must(t, os.MkdirAll(filepath.Join(inside, "etc/deep"), 0o755))
	must(t, os.WriteFile(filepath.Join(inside, "etc/file"), []byte("mine"), 0o644))
	must(t, os.Symlink("/etc/file", filepath.Join(inside, "one")))
	must(t, os.Symlink("../../etc/./deep/../../one", filepath.Join(inside, "etc/deep/two")))
	must(t, os.Symlink("loop", filepath.Join(inside, "loop")))
	must(t, os.Symlink("/etc/missing", filepath.Join(inside, "dangling")))

	f, err := root.Open("etc/deep/two", os.O_RDONLY, 0)
	must(t, err)
	defer f.Close()
	if data, _ := io.ReadAll(f); string(data) != "mine" {
		t.Errorf("read %q", data)
	}
	for name, want := range map[string]string{"etc/deep/two": "/etc/file", "one": "/etc/file", "etc": "/etc", "dangling": "/etc/missing", "/": "/"} {
		if got, err := root.Resolve(name); got != want || err != nil {
			t.Errorf("Resolve(%s) = %s, %v, want %s", name, got, err, want)
		}
	}
	if got, err := root.Resolve("loop"); !errors.Is(err, syscall.ELOOP) {
		t.Errorf("Resolve(loop) = %s, %v", got, err)
	}
	if got, err := root.Resolve("missing/file"); !os.IsNotExist(err) {
		t.Errorf("Resolve(missing/file) = %s, %v", got, err)
	}
}

// TestSwappedParents races every changing verb against a sandbox that keeps
// exchanging a directory for a link to the outside.
func TestSwappedParents(t *testing.T) {
	root, inside, outside := place(t)
	must(t, os.Mkdir(filepath.Join(inside, "real"), 0o755))
	must(t, os.Symlink(outside, filepath.Join(inside, "link")))
	must(t, os.Symlink("real", filepath.Join(inside, "d")))

	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			target := []string{"real", outside, "../outside"}[i%3]
			next := filepath.Join(inside, "next")
			os.Symlink(target, next)
			os.Rename(next, filepath.Join(inside, "d"))
		}
	}()
	deadline := time.Now().Add(soak.Time(time.Second, 50*time.Second))
	for time.Now().Before(deadline) {
		abuse(root)
	}
	close(stop)
	<-stopped
	names, err := os.ReadDir(outside)
	must(t, err)
	data, err := os.ReadFile(filepath.Join(outside, "canary"))
	if len(names) != 1 || string(data) != "canary" || err != nil {
		t.Errorf("outside was reached: %v, canary %q, %v", names, data, err)
	}
}

// abuse tries every way to make, change or remove something behind d. Errors
// are expected; only what is left outside counts.
func abuse(root *Root) {
	if d, err := root.NewDraft("d/canary", 0o644); err == nil {
		d.WriteString("overwritten")
		d.Commit()
	}
	root.MkdirAll("d/made/deep", 0o755)
	if p, err := root.Place("d/canary"); err == nil {
		if q, err := root.Place("d/moved"); err == nil {
			p.Rename(q)
			q.Close()
		}
		p.Close()
	}
	if f, err := root.Open("d/canary", os.O_WRONLY|os.O_TRUNC, 0); err == nil {
		f.Close()
	}
	root.RemoveAll(context.Background(), "d/canary")
	root.RemoveAll(context.Background(), "d/made")
}

func TestRemoveAll(t *testing.T) {
	root, inside, outside := place(t)
	must(t, os.MkdirAll(filepath.Join(inside, "tree/a/b"), 0o755))
	must(t, os.Symlink(outside, filepath.Join(inside, "tree/a/out")))
	must(t, os.WriteFile(filepath.Join(inside, "tree/a/b/f"), nil, 0o644))
	must(t, root.RemoveAll(t.Context(), "tree"))
	must(t, root.RemoveAll(t.Context(), "tree"))
	if _, err := os.Lstat(filepath.Join(inside, "tree")); !os.IsNotExist(err) {
		t.Error("the tree is still there")
	}
	if _, err := os.Stat(filepath.Join(outside, "canary")); err != nil {
		t.Error("a link was followed:", err)
	}
	if err := root.RemoveAll(t.Context(), "/"); !errors.Is(err, syscall.EBUSY) {
		t.Errorf("removing the root: %v, want EBUSY", err)
	}
}

func TestRemoveAllBoundsDepth(t *testing.T) {
	root, inside, _ := place(t)
	must(t, os.MkdirAll(filepath.Join(inside, strings.Repeat("d/", MaxDepth+10)), 0o755))
	if err := root.RemoveAll(t.Context(), "d"); !errors.Is(err, syscall.ELOOP) {
		t.Errorf("got %v, want ELOOP", err)
	}
}

func TestDraft(t *testing.T) {
	root, inside, _ := place(t)
	target := filepath.Join(inside, "file")
	must(t, os.WriteFile(target, []byte("old"), 0o640))
	must(t, os.Chmod(target, 0o750))
	must(t, os.Symlink("file", filepath.Join(inside, "link")))

	d, err := root.NewDraft("link", 0o644)
	must(t, err)
	_, err = d.WriteString("new")
	must(t, err)
	if data, _ := os.ReadFile(target); string(data) != "old" {
		t.Errorf("half a file is visible: %q", data)
	}
	must(t, d.Commit())
	info, err := os.Lstat(target)
	must(t, err)
	if data, _ := os.ReadFile(target); string(data) != "new" || info.Mode().Perm() != 0o750 {
		t.Errorf("%q with mode %v", data, info.Mode())
	}
	if to, _ := os.Readlink(filepath.Join(inside, "link")); to != "file" {
		t.Error("the link was replaced")
	}

	d, err = root.NewDraft("other", 0o604)
	must(t, err)
	must(t, d.Discard())
	if names, _ := os.ReadDir(inside); len(names) != 2 {
		t.Errorf("something is left: %v", names)
	}
	if _, err := root.NewDraft("/", 0o644); err == nil {
		t.Error("the root was written")
	}
	must(t, os.Mkdir(filepath.Join(inside, "dir"), 0o755))
	if _, err := root.NewDraft("dir", 0o644); !errors.Is(err, syscall.EISDIR) {
		t.Errorf("writing a directory: %v", err)
	}
	must(t, syscall.Mkfifo(filepath.Join(inside, "fifo"), 0o644))
	if _, err := root.NewDraft("fifo", 0o644); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("writing a fifo: %v", err)
	}
}

func TestFifoDoesNotBlock(t *testing.T) {
	root, inside, _ := place(t)
	must(t, syscall.Mkfifo(filepath.Join(inside, "fifo"), 0o644))
	f, err := root.Open("fifo", os.O_RDONLY, 0)
	must(t, err)
	f.Close()
}

func TestIdentity(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can be somebody else")
	}
	root, inside, _ := place(t)
	must(t, os.Chmod(filepath.Dir(inside), 0o755))
	must(t, os.WriteFile(filepath.Join(inside, "secret"), []byte("s"), 0o600))
	must(t, os.Mkdir(filepath.Join(inside, "home"), 0o700))
	must(t, os.Chown(filepath.Join(inside, "home"), 12345, 54321))

	err := Identity{12345, 54321}.Do(func() error {
		if f, err := root.Open("secret", os.O_RDONLY, 0); !os.IsPermission(err) {
			f.Close()
			t.Errorf("root's file: %v, want a permission error", err)
		}
		return root.MkdirAll("home/dir", 0o755)
	})
	must(t, err)
	info, err := root.Stat("home/dir")
	if err != nil || info.UID != 12345 || info.GID != 54321 {
		t.Errorf("%+v, %v", info, err)
	}
	f, err := root.Open("secret", os.O_RDONLY, 0)
	if err != nil {
		t.Fatal("the old identity did not come back:", err)
	}
	f.Close()
}

func FuzzClean(f *testing.F) {
	for _, seed := range []string{"", "/", "..", "a/../..", "//x//", "a/./b", "\x00", "~/x"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, name string) {
		got := Clean(name)
		if !strings.HasPrefix(got, "/") || strings.Contains(got+"/", "/../") || got != Clean(got) {
			t.Errorf("Clean(%q) = %q", name, got)
		}
	})
}

// TestClosedRootStaysClosed gives the number of a closed root to another
// directory at once.
func TestClosedRootStaysClosed(t *testing.T) {
	root, _, outside := place(t)
	must(t, root.Close())
	other, err := os.Open(outside)
	must(t, err)
	defer other.Close()
	if f, err := root.Open("canary", os.O_RDONLY, 0); !errors.Is(err, os.ErrClosed) {
		f.Close()
		t.Errorf("a closed root was used: %v", err)
	}
}

func TestMkdirIgnoresTheUmask(t *testing.T) {
	root, _, _ := place(t)
	old := syscall.Umask(0o077)
	defer syscall.Umask(old)
	must(t, root.MkdirAll("a/b", 0o755))
	d, err := root.NewDraft("f", 0o644)
	must(t, err)
	must(t, d.Commit())
	for name, want := range map[string]os.FileMode{"a": 0o755, "a/b": 0o755, "f": 0o644} {
		if info, err := root.Stat(name); err != nil || info.Mode.Perm() != want {
			t.Errorf("%s: %v, %v", name, info.Mode, err)
		}
	}
}
