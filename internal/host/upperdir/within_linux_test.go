package upperdir

import (
	"bytes"
	"os"
	"os/exec"
	"testing"

	"aether/sandbox"

	"golang.org/x/sys/unix"
)

// bind shows a directory or file at another place too, until the test ends.
func bind(t *testing.T, from, to string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can mount")
	}
	if out, err := exec.Command("mount", "--bind", from, to).CombinedOutput(); err != nil {
		t.Skipf("this host does not let a test mount: %s", out)
	}
	t.Cleanup(func() { check(t, unix.Unmount(to, 0)) })
}

// TestWholeRoot takes a root with everything in it into another, of which nothing is left.
// What is mounted in either is neither taken nor touched.
func TestWholeRoot(t *testing.T) {
	from, to, host := t.TempDir(), t.TempDir(), t.TempDir()
	fillUpper(t, from)
	check(t, os.Remove(from+"/removed"))
	check(t, os.WriteFile(from+"/dir/image", []byte("image"), 0o600))
	check(t, os.Mkdir(from+"/tmp", 0o755))
	check(t, os.WriteFile(from+"/tmp/beside", []byte("beside"), 0o600))
	fillImage(t, to)
	check(t, os.WriteFile(to+"/dir/stale", nil, 0o600))
	check(t, os.WriteFile(host+"/secret", []byte("the host's"), 0o600))
	check(t, os.Mkdir(from+"/dir/mounted", 0o700))
	check(t, os.Chtimes(from+"/dir", long, long))
	bind(t, host, from+"/dir/mounted")
	check(t, os.Mkdir(to+"/dir/mounted", 0o700))
	bind(t, host, to+"/dir/mounted")

	var archive bytes.Buffer
	check(t, Pack(t.Context(), &archive, Tree{Dir: open(t, from), Whole: true}))
	if bytes.Contains(archive.Bytes(), []byte("the host's")) {
		t.Error("what is mounted is in the archive")
	}
	check(t, UnpackWithin(t.Context(), &archive, open(t, to)))
	checkFiles(t, to)
	checkKinds(t, to)
	checkHole(t, to+"/hole")
	for _, name := range []string{"/dir/stale", "/removed", "/opaque/below"} {
		if _, err := os.Lstat(to + name); !os.IsNotExist(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got, err := os.ReadFile(host + "/secret"); err != nil || string(got) != "the host's" {
		t.Errorf("of the host's there is %q, %v", got, err)
	}
}

// TestUnpackAroundMounts: what is mounted where an archive has something stays as it is,
// with its owner and mode.
func TestUnpackAroundMounts(t *testing.T) {
	upper, root, host := t.TempDir(), t.TempDir(), t.TempDir()
	for _, dir := range []string{"/data", "/opaque"} {
		check(t, os.Mkdir(upper+dir, 0o777))
	}
	check(t, os.WriteFile(upper+"/data/up", nil, 0o600))
	check(t, os.WriteFile(upper+"/file", []byte("written"), 0o600))
	check(t, os.WriteFile(upper+"/other", []byte("written"), 0o600))
	check(t, unix.Setxattr(upper+"/opaque", opaqueName, []byte("y"), 0))
	check(t, os.MkdirAll(root+"/opaque/data", 0o700))
	check(t, os.Mkdir(root+"/data", 0o700))
	check(t, os.WriteFile(root+"/file", nil, 0o600))
	check(t, os.Chmod(host, 0o711))
	check(t, os.WriteFile(host+"/own", []byte("the host's"), 0o600))
	bind(t, host, root+"/data")
	bind(t, host, root+"/opaque/data")
	bind(t, host+"/own", root+"/file")

	var archive bytes.Buffer
	check(t, Pack(t.Context(), &archive, Tree{Dir: open(t, upper), UserAttrs: true}))
	check(t, UnpackWithin(t.Context(), &archive, open(t, root)))
	entries, err := os.ReadDir(host)
	if err != nil || len(entries) != 1 {
		t.Errorf("the host has %v, %v", entries, err)
	}
	if info, err := os.Stat(host); err != nil || info.Mode().Perm() != 0o711 {
		t.Errorf("%v, %v", info, err)
	}
	for name, want := range map[string]string{root + "/file": "the host's", root + "/other": "written"} {
		if got, err := os.ReadFile(name); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

// TestOwners: files of the host have owners inside.
func TestOwners(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root gives files away")
	}
	upper, root := t.TempDir(), t.TempDir()
	check(t, os.WriteFile(upper+"/file", nil, 0o600))
	check(t, os.Symlink("file", upper+"/link"))
	check(t, os.Lchown(upper+"/file", 100_007, 100_008))
	check(t, os.Lchown(upper+"/link", 100_007, 100_008))
	inside := func(uid, gid uint32) (int, int, error) { return int(uid) % 100_000, int(gid) % 100_000, nil }
	var archive bytes.Buffer
	check(t, Pack(t.Context(), &archive, Tree{Dir: open(t, upper), Owner: inside}))
	check(t, Unpack(t.Context(), &archive, open(t, root)))
	for _, name := range []string{"/file", "/link"} {
		var st unix.Stat_t
		check(t, unix.Lstat(root+name, &st))
		if st.Uid != 7 || st.Gid != 8 {
			t.Errorf("%s is of %d:%d", name, st.Uid, st.Gid)
		}
	}
}

// TestKeptElsewhere: what an overlay keeps among the files of the image is not lost
// silently.
func TestKeptElsewhere(t *testing.T) {
	upper := t.TempDir()
	check(t, os.WriteFile(upper+"/file", nil, 0o600))
	if err := unix.Setxattr(upper+"/file", metacopyName, nil, 0); err != nil {
		t.Skipf("only root can make such a file: %v", err)
	}
	if err := Pack(t.Context(), &bytes.Buffer{}, Tree{Dir: open(t, upper)}); sandbox.ClassOf(err) != sandbox.Unsupported {
		t.Errorf("%v", err)
	}
}
