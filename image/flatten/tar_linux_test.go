package flatten

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"aether/internal/host/layerfs"
	"aether/sandbox"
)

// layer makes a layer of entries "name/" (a directory), "name=text" (a file),
// "name>target" (a link), "-name" (hidden below) and "!name" (a directory that
// hides all below).
func layer(t *testing.T, entries ...string) string {
	t.Helper()
	dir := t.TempDir()
	tree, err := layerfs.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if err := addTo(tree, e); err != nil {
			t.Fatalf("%s: %v", e, err)
		}
	}
	if err := tree.Close(); err != nil {
		t.Fatal(err)
	}
	return dir
}

func addTo(tree *layerfs.Tree, e string) error {
	if name, ok := strings.CutSuffix(e, "/"); ok {
		return tree.Mkdir(name)
	}
	if name, ok := strings.CutPrefix(e, "-"); ok {
		return tree.Whiteout(name)
	}
	if name, ok := strings.CutPrefix(e, "!"); ok {
		return errors.Join(tree.Mkdir(name), tree.Opaque(name))
	}
	if name, target, ok := strings.Cut(e, ">"); ok {
		return tree.Symlink(target, name)
	}
	if name, target, ok := strings.Cut(e, "&"); ok {
		return tree.Link(target, name)
	}
	name, text, _ := strings.Cut(e, "=")
	return tree.File(name, strings.NewReader(text))
}

// unpacked describes the files below a directory of a tar in the words of layer.
func unpacked(t *testing.T, text []byte, below string) (list []string) {
	t.Helper()
	for r := tar.NewReader(bytes.NewReader(text)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return list
		}
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(h.Name, below) {
			t.Errorf("%s is not below %q", h.Name, below)
		}
		h.Name = strings.TrimPrefix(h.Name, below)
		if h.Typeflag == tar.TypeLink {
			h.Linkname = strings.TrimPrefix(h.Linkname, below)
		}
		content, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, map[byte]string{tar.TypeDir: h.Name + "/", tar.TypeSymlink: h.Name + ">" + h.Linkname,
			tar.TypeLink: h.Name + "&" + h.Linkname, tar.TypeReg: h.Name + "=" + string(content)}[h.Typeflag])
	}
}

func TestPack(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root makes what hides in a layer")
	}
	for name, c := range map[string]struct {
		layers [][]string
		want   []string
	}{
		"one":                {[][]string{{"a/", "a/f=1", "l>a/f"}}, []string{"a/", "a/f=1", "l>a/f"}},
		"file over file":     {[][]string{{"f=1"}, {"f=2"}}, []string{"f=2"}},
		"directories merge":  {[][]string{{"a/", "a/f=1", "a/g=1"}, {"a/", "a/g=2", "a/h=2"}}, []string{"a/", "a/f=1", "a/g=2", "a/h=2"}},
		"hidden file":        {[][]string{{"f=1", "g=1"}, {"-f"}}, []string{"g=1"}},
		"hidden and anew":    {[][]string{{"a/", "a/f=1"}, {"-a"}, {"a/", "a/g=3"}}, []string{"a/", "a/g=3"}},
		"opaque":             {[][]string{{"a/", "a/f=1"}, {"!a", "a/g=2"}}, []string{"a/", "a/g=2"}},
		"file over tree":     {[][]string{{"a/", "a/f=1"}, {"a=2"}}, []string{"a=2"}},
		"tree over file":     {[][]string{{"a/", "a/x=0"}, {"a=1"}, {"a/", "a/f=2"}}, []string{"a/", "a/f=2"}},
		"two names":          {[][]string{{"f=1", "g&f"}}, []string{"f=1", "g&f"}},
		"link over the tree": {[][]string{{"a/", "a/f=1"}, {"a>/etc"}}, []string{"a>/etc"}},
	} {
		t.Run(name, func(t *testing.T) {
			var layers []string
			for _, entries := range c.layers {
				layers = append(layers, layer(t, entries...))
			}
			for _, below := range []string{"", "rootfs/"} {
				var out bytes.Buffer
				if err := Pack(t.Context(), layers, tar.NewWriter(&out), below); err != nil {
					t.Fatal(err)
				}
				if got := unpacked(t, out.Bytes(), below); !slices.Equal(got, c.want) {
					t.Errorf("%q, want %q", got, c.want)
				}
			}
		})
	}
}

func TestPackKeepsWhatFilesAre(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := errors.Join(os.WriteFile(file, []byte("text"), 0o600), os.Chmod(file, 0o640)); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := Pack(t.Context(), []string{dir}, tar.NewWriter(&out), ""); err != nil {
		t.Fatal(err)
	}
	h, err := tar.NewReader(&out).Next()
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	if h.Mode != 0o640 || h.Uid != 0 || h.Gid != 0 || !h.ModTime.Equal(info.ModTime()) {
		t.Errorf("%+v", h)
	}
}

func TestPackOfNothing(t *testing.T) {
	err := Pack(t.Context(), []string{"/no/such"}, tar.NewWriter(io.Discard), "")
	if sandbox.ClassOf(err) != sandbox.Unavailable {
		t.Error(err)
	}
}

// TestPackOfAHole packs a directory with a file that takes no room and has no bounds.
func TestPackOfAHole(t *testing.T) {
	dir := t.TempDir()
	file, err := os.Create(filepath.Join(dir, "hole"))
	if err == nil {
		err = errors.Join(file.Truncate(maxBytes+1), file.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	err = flattenInto(io.Discard, dir)
	if sandbox.ClassOf(err) != sandbox.Invalid {
		t.Errorf("got %v", err)
	}
}

func flattenInto(to io.Writer, dir string) error {
	return Pack(context.Background(), []string{dir}, tar.NewWriter(to), "")
}
