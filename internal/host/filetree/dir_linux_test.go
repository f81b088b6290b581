package filetree

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func open(t *testing.T, dir string) *Dir {
	t.Helper()
	d, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

func put(t *testing.T, name, content string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(content), 0o640)); err != nil {
		t.Fatal(err)
	}
}

func TestEntries(t *testing.T) {
	dir := t.TempDir()
	put(t, dir+"/b/file", "12345")
	put(t, dir+"/a", "")
	if err := errors.Join(os.Symlink("b/file", dir+"/link"), os.Link(dir+"/a", dir+"/c")); err != nil {
		t.Fatal(err)
	}
	d := open(t, dir)
	list, err := d.Entries()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, info := range list {
		got = append(got, fmt.Sprintf("%s:%v:%v:%v", info.Name, info.IsDir(), info.IsFile(), info.IsSymlink()))
	}
	if want := "a:false:true:false b:true:false:false c:false:true:false link:false:false:true"; strings.Join(got, " ") != want {
		t.Errorf("got %v, want %s", got, want)
	}
	if list[0].Links != 2 || list[0].Ino != list[2].Ino || list[0].Mode&0o777 != 0o640 {
		t.Errorf("%+v", list[0])
	}
	if target, err := d.Readlink("link"); target != "b/file" || err != nil {
		t.Errorf("%q, %v", target, err)
	}
	if self, err := d.Self(); err != nil || !self.IsDir() || self.Name != "" {
		t.Errorf("%+v, %v", self, err)
	}
}

// A tree that is changed while it is read must not lead out of itself.
func TestNoLinkIsFollowed(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	put(t, outside+"/secret", "secret")
	put(t, dir+"/sub/file", "inside")
	for name, target := range map[string]string{"dir": outside, "file": outside + "/secret", "sub/up": "../.."} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Open(dir + "/dir"); err == nil {
		t.Error("a link was opened as a directory")
	}
	d := open(t, dir)
	if _, err := d.Sub("dir"); err == nil {
		t.Error("a link was opened as a directory below")
	}
	for _, name := range []string{"file", "dir/secret", "sub/up/file", "../" + filepath.Base(outside) + "/secret", outside + "/secret"} {
		if file, err := d.OpenFile(name); err == nil {
			t.Errorf("%s was opened", name)
			file.Close()
		}
	}
	file, err := d.OpenFile("sub/file")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if text, err := io.ReadAll(file); string(text) != "inside" || err != nil {
		t.Errorf("%q, %v", text, err)
	}
	if _, err := d.OpenFile("missing"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
}

func TestAttrs(t *testing.T) {
	dir := t.TempDir()
	put(t, dir+"/file", "")
	if err := os.Symlink("file", dir+"/link"); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"user.kept", "user.dropped"} {
		if err := unix.Setxattr(dir+"/file", name, []byte("v"), 0); err != nil {
			t.Skipf("this file system has no attributes: %v", err)
		}
	}
	want := func(name string) bool { return name == "user.kept" }
	d := open(t, dir)
	if attrs, err := d.Attrs("file", want); err != nil || len(attrs) != 1 || attrs["user.kept"] != "v" {
		t.Errorf("%v, %v", attrs, err)
	}
	for _, name := range []string{"link", "."} {
		if attrs, err := d.Attrs(name, want); err != nil || len(attrs) != 0 {
			t.Errorf("%s: %v, %v", name, attrs, err)
		}
	}
	if _, err := d.Attrs("missing", want); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
}
