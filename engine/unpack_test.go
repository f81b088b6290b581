package engine

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"path"
	"slices"
	"strings"
	"testing"

	"aether/sandbox"
)

// packed is an archive: a name that ends in a slash is a directory, and one with an arrow a
// link.
func packed(t testing.TB, names ...string) []byte {
	t.Helper()
	var to bytes.Buffer
	zipped := gzip.NewWriter(&to)
	w := tar.NewWriter(zipped)
	for _, name := range names {
		h := &tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o644, Size: 1}
		if link, to, ok := strings.Cut(name, " -> "); ok {
			h = &tar.Header{Name: link, Linkname: to, Typeflag: tar.TypeSymlink, Mode: 0o777}
		} else if strings.HasSuffix(name, "/") {
			h = &tar.Header{Name: name, Typeflag: tar.TypeDir, Mode: 0o755}
		}
		err := w.WriteHeader(h)
		if h.Size > 0 {
			_, failed := w.Write([]byte("x"))
			err = errors.Join(err, failed)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), zipped.Close()); err != nil {
		t.Fatal(err)
	}
	return to.Bytes()
}

// unpackedNames are what tar would unpack.
func unpackedNames(t testing.TB, archive []byte) (list []string) {
	t.Helper()
	for r := tar.NewReader(bytes.NewReader(archive)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return list
		}
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, h.Name)
	}
}

// TestMoveFiles: of an archive, what is meant gets the names that it is to have, and nothing
// leaves the target.
func TestMoveFiles(t *testing.T) {
	tree := packed(t, "one.txt", "src/", "src/a.py", "src/b.txt", "src/deep/", "src/deep/c.txt", "src/link -> ../../x", "../../out", "/abs")
	for name, c := range map[string]struct {
		f    unpacking
		want string
	}{
		"one file":          {unpacking{Files: Files{Source: "one.txt", Target: "/opt/two.txt"}}, "two.txt"},
		"into a directory":  {unpacking{Files: Files{Source: "./one.txt", Target: "/opt/"}}, "opt/one.txt"},
		"a directory":       {unpacking{Files: Files{Source: "src", Target: "/opt/app"}}, "app app/a.py app/b.txt app/deep app/deep/c.txt app/link"},
		"one that is there": {unpacking{Files{Source: "src", Target: "/opt/app"}, true}, "app/a.py app/b.txt app/deep app/deep/c.txt app/link"},
		"a pattern":         {unpacking{Files: Files{Source: "src/*.txt", Target: "/opt/app"}}, "app/b.txt"},
		"everything":        {unpacking{Files: Files{Source: ".", Target: "/a/b"}}, "b/one.txt b/src b/src/a.py b/src/b.txt b/src/deep b/src/deep/c.txt b/src/link b/out b/abs"},
	} {
		var to bytes.Buffer
		if err := c.f.move(bytes.NewReader(tree), &to); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got := strings.Join(unpackedNames(t, to.Bytes()), " "); got != c.want {
			t.Errorf("%s: %s", name, got)
		}
	}
	for name, archive := range map[string][]byte{"nothing of it": tree, "no archive": []byte(strings.Repeat("no archive", 100)), "cut": tree[:len(tree)/2]} {
		err := unpacking{Files: Files{Source: "none", Target: "/x"}}.move(bytes.NewReader(archive), io.Discard)
		if sandbox.ClassOf(err) != sandbox.Invalid {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// FuzzMoveFiles: whatever an archive says, every name is below that of the target.
func FuzzMoveFiles(f *testing.F) {
	f.Add(packed(f, "a", "../b", "/c", "d/e", "l -> /etc"), ".")
	f.Fuzz(func(t *testing.T, archive []byte, source string) {
		files := Files{Archive: "a", Source: source, Target: "/opt/top"}
		if files.validate() != nil {
			t.Skip()
		}
		var to bytes.Buffer
		if (unpacking{Files: files}).move(bytes.NewReader(archive), &to) != nil {
			return
		}
		for _, name := range unpackedNames(t, to.Bytes()) {
			if parts := strings.Split(name, "/"); path.Clean(name) != name || parts[0] != "top" || slices.Contains(parts, "..") {
				t.Errorf("%q", name)
			}
		}
	})
}
