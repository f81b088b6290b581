package cli

import (
	"archive/tar"
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// yard is a directory with a target in it, and beside it what nobody may touch.
func yard(t testing.TB) (root *os.Root, outside string) {
	t.Helper()
	dir := t.TempDir()
	outside = filepath.Join(dir, "outside")
	for _, name := range []string{outside, filepath.Join(dir, "target")} {
		if err := os.Mkdir(name, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(name, "mine"), []byte("mine"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	root, err := os.OpenRoot(filepath.Join(dir, "target"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	return root, outside
}

// untouched says that nothing outside has changed, nor has anything been added there.
func untouched(t testing.TB, outside string) {
	t.Helper()
	var names []string
	err := filepath.WalkDir(filepath.Dir(outside), func(name string, _ fs.DirEntry, err error) error {
		if name == filepath.Join(filepath.Dir(outside), "target") {
			return filepath.SkipDir
		}
		names = append(names, name)
		return err
	})
	if err != nil || len(names) != 3 {
		t.Errorf("outside are %v, %v", names, err)
	}
	text, err := os.ReadFile(filepath.Join(outside, "mine"))
	info, failed := os.Stat(filepath.Join(outside, "mine"))
	if err != nil || failed != nil || string(text) != "mine" || info.Mode() != 0o600 {
		t.Errorf("outside is %q, %v, %v", text, info, err)
	}
}

// TestUnpackHostile: archives that reach for what is outside, or for what was there before.
func TestUnpackHostile(t *testing.T) {
	dir := tar.Header{Typeflag: tar.TypeDir, Name: "w/", Mode: 0o755}
	file := func(name string) tar.Header { return tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o4777} }
	link := func(name, to string) tar.Header {
		return tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: to}
	}
	hard := func(name, to string) tar.Header {
		return tar.Header{Typeflag: tar.TypeLink, Name: name, Linkname: to}
	}
	for name, entries := range map[string][]tar.Header{
		"up":                    {dir, file("w/../../outside/x")},
		"absolute":              {dir, file("/outside/x")},
		"another name":          {dir, file("v/x")},
		"a link up":             {dir, link("w/l", "../outside"), file("w/l/x")},
		"an absolute link":      {dir, link("w/l", "/tmp"), file("w/l/aether-x")},
		"a link to a link":      {dir, link("w/a", ".."), link("w/b", "a/outside"), file("w/b/x")},
		"a directory by link":   {dir, link("w/l", "../outside"), tar.Header{Typeflag: tar.TypeDir, Name: "w/l/d"}},
		"a hard link up":        {dir, hard("w/h", "w/../../outside/mine"), file("w/h")},
		"a hard link by link":   {dir, link("w/l", "../outside"), hard("w/h", "w/l/mine"), file("w/h")},
		"a hard link elsewhere": {dir, hard("w/h", "../outside/mine")},
	} {
		root, outside := yard(t)
		u := &unpacking{root: root, base: "w"}
		if err := u.all(bytes.NewReader(pack(t, entries...))); err == nil {
			t.Errorf("%s is taken", name)
		}
		untouched(t, outside)
	}
	for name, entries := range map[string][]tar.Header{
		"through a link":      {dir, link("w/l", "../outside/mine"), file("w/l")},
		"through a hard link": {dir, hard("w/h", "w/mine"), file("w/h")},
		"a directory's mode":  {dir, link("w/l", "../outside"), {Typeflag: tar.TypeDir, Name: "w/l", Mode: 0o777}},
		"devices":             {dir, {Typeflag: tar.TypeChar, Name: "w/dev"}, {Typeflag: tar.TypeFifo, Name: "w/fifo"}},
	} {
		root, outside := yard(t)
		u := &unpacking{root: root, base: "w"}
		if err := u.all(bytes.NewReader(pack(t, entries...))); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		untouched(t, outside)
		if text, err := root.ReadFile("mine"); err != nil || string(text) != "mine" {
			t.Errorf("%s: what was there is %q, %v", name, text, err)
		}
		for _, gone := range []string{"dev", "fifo"} {
			if _, err := root.Lstat(gone); err == nil {
				t.Errorf("%s was made", gone)
			}
		}
		if info, err := root.Lstat("h"); err == nil && info.Mode() != 0o777 {
			t.Errorf("%s: mode %v", name, info.Mode())
		}
	}
	for name, entries := range map[string][]tar.Header{
		"a directory": {dir}, "a link": {link("w", "/etc/passwd")}, "two": {file("w"), file("w/x")}, "nothing": {},
	} {
		root, outside := yard(t)
		u := &unpacking{root: root, base: "w", file: "asked"}
		if err := u.all(bytes.NewReader(pack(t, entries...))); err == nil {
			t.Errorf("%s for a file is taken", name)
		}
		untouched(t, outside)
	}
}

// FuzzUnpack: whatever a sandbox sends, nothing outside is touched.
func FuzzUnpack(f *testing.F) {
	f.Add(pack(f, tar.Header{Typeflag: tar.TypeDir, Name: "w", Mode: 0o755}, tar.Header{Typeflag: tar.TypeSymlink, Name: "w/l", Linkname: "../outside"},
		tar.Header{Typeflag: tar.TypeReg, Name: "w/l/x"}, tar.Header{Typeflag: tar.TypeLink, Name: "w/h", Linkname: "w/l"}))
	f.Add(pack(f, tar.Header{Typeflag: tar.TypeReg, Name: "w/../../outside/mine"}))
	f.Fuzz(func(t *testing.T, archive []byte) {
		for _, base := range []string{"w", "/"} {
			root, outside := yard(t)
			u := &unpacking{root: root, base: base}
			_ = u.all(bytes.NewReader(archive)) // which may fail, and for nearly all does
			untouched(t, outside)
		}
	})
}

// pack is an archive of such entries, whose files hold an x.
func pack(t testing.TB, entries ...tar.Header) []byte {
	t.Helper()
	var text bytes.Buffer
	archive := tar.NewWriter(&text)
	for _, e := range entries {
		if e.Typeflag == tar.TypeReg {
			e.Size = 1
		}
		if err := archive.WriteHeader(&e); err != nil {
			t.Fatal(err)
		}
		if e.Size > 0 {
			if _, err := archive.Write([]byte("x")); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}
	return text.Bytes()
}
