package layerfs

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"aether/internal/unprivtest"
)

// mountEnv makes the test binary mount an overlay and print what it shows.
const mountEnv = "LAYERFS_TEST_MOUNT"

func TestMain(m *testing.M) {
	if dir := os.Getenv(mountEnv); dir != "" {
		if err := printOverlay(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func printOverlay(dir string) error {
	options := fmt.Sprintf("lowerdir=%[1]s/upper:%[1]s/lower,userxattr", dir)
	if err := syscall.Mount("overlay", dir+"/merged", "overlay", 0, options); err != nil {
		return fmt.Errorf("mount: %w", err)
	}
	return filepath.WalkDir(dir+"/merged", func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			fmt.Println(strings.TrimPrefix(path, dir+"/merged/"))
		}
		return err
	})
}

// TestOverlayHonoursWhiteouts has the kernel read, from within a user namespace,
// what this package writes.
func TestOverlayHonoursWhiteouts(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "lower"), func(tree *Tree) {
		for _, name := range []string{"kept", "gone", "dir/gone", "dir/kept", "opaque/old", "replaced/old", "tree/a/b"} {
			check(t, tree.File(name, strings.NewReader(name)))
			check(t, tree.Set(name, Meta{Mode: 0o644}))
		}
	})
	write(t, filepath.Join(dir, "upper"), func(tree *Tree) {
		check(t, tree.File("opaque/new", strings.NewReader("")))
		check(t, tree.File("replaced/new", strings.NewReader("")))
		for _, name := range []string{"gone", "dir/gone", "replaced", "tree"} {
			check(t, tree.Whiteout(name))
		}
		check(t, tree.Opaque("opaque"))
	})
	check(t, os.Mkdir(filepath.Join(dir, "merged"), 0o755))
	want := "dir/kept\nkept\nopaque/new\nreplaced/new\n"
	if got := mountAndList(t, dir); got != want {
		t.Errorf("the overlay shows\n%swant\n%s", got, want)
	}
}

func mountAndList(t *testing.T, dir string) string {
	t.Helper()
	child := exec.Command("/proc/self/exe")
	child.Env = append(os.Environ(), mountEnv+"="+dir)
	child.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Geteuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: os.Getegid(), Size: 1}},
	}
	var out, failure bytes.Buffer
	child.Stdout, child.Stderr = &out, &failure
	if err := child.Start(); err != nil {
		t.Skipf("this host gives uid %d no user namespace: %v", os.Geteuid(), err)
	}
	if err := child.Wait(); err != nil {
		t.Fatalf("%v: %s", err, failure.String())
	}
	return out.String()
}

// TestAsOrdinaryUser runs this package's tests once more without privilege.
func TestAsOrdinaryUser(t *testing.T) {
	unprivtest.AsOrdinaryUser(t, []string{"-test.skip=^TestAsOrdinaryUser$"})
}

func TestSetKeepsAndDrops(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "layer")
	when := time.Unix(1700000000, 5000)
	write(t, dir, func(tree *Tree) {
		check(t, tree.File("f", strings.NewReader("x")))
		check(t, tree.Set("f", Meta{UID: 7, GID: 1 << 20, Mode: fs.ModeSetuid | fs.ModeSetgid | 0o755, ModTime: when,
			Xattrs: map[string]string{"user.note": "kept", "user.overlay.redirect": "/", "security.capability": "x", "trusted.overlay.opaque": "y"}}))
	})
	info, err := os.Lstat(filepath.Join(dir, "f"))
	check(t, err)
	if info.Mode() != 0o755 || !info.ModTime().Equal(when) {
		t.Errorf("mode %v, time %v", info.Mode(), info.ModTime())
	}
	if got := xattrs(t, filepath.Join(dir, "f")); got != "user.note\x00" {
		t.Errorf("attributes %q", got)
	}
	stat := info.Sys().(*syscall.Stat_t)
	if os.Geteuid() == 0 && (stat.Uid != 7 || stat.Gid != overflowID) || os.Geteuid() != 0 && int(stat.Uid) != os.Geteuid() {
		t.Errorf("owner %d:%d", stat.Uid, stat.Gid)
	}
}

func xattrs(t *testing.T, path string) string {
	t.Helper()
	buffer := make([]byte, 4096)
	n, err := syscall.Listxattr(path, buffer)
	check(t, err)
	return string(buffer[:n])
}

func write(t *testing.T, dir string, fill func(*Tree)) {
	t.Helper()
	check(t, os.Mkdir(dir, 0o755))
	tree, err := Open(dir)
	check(t, err)
	fill(tree)
	check(t, tree.Close())
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
