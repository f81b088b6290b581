package image

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"aether/sandbox"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// Entries of test archives.
func file(name, body string) entry { return entry{tar.Header{Name: name, Mode: 0o644}, body} }
func dir(name string) entry {
	return entry{tar.Header{Name: name, Typeflag: tar.TypeDir, Mode: 0o755}, ""}
}
func symlink(name, target string) entry {
	return entry{tar.Header{Name: name, Typeflag: tar.TypeSymlink, Linkname: target, Mode: 0o777}, ""}
}
func hardlink(name, target string) entry {
	return entry{tar.Header{Name: name, Typeflag: tar.TypeLink, Linkname: target}, ""}
}
func special(name string, kind byte) entry {
	return entry{tar.Header{Name: name, Typeflag: kind, Mode: 0o644, Devmajor: 1, Devminor: 3}, ""}
}

type entry struct {
	header tar.Header
	body   string
}

func tarOf(t testing.TB, entries ...entry) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, e := range entries {
		e.header.Size = int64(len(e.body))
		check(t, w.WriteHeader(&e.header))
		_, err := io.WriteString(w, e.body)
		check(t, err)
	}
	check(t, w.Close())
	return out.Bytes()
}

func layerOf(t testing.TB, archive []byte) v1.Layer {
	t.Helper()
	l, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(archive)), nil })
	check(t, err)
	return l
}

// imageOf makes a real image of layers, lowest first.
func imageOf(t testing.TB, archives ...[]byte) v1.Image {
	t.Helper()
	layers := make([]v1.Layer, 0, len(archives))
	for _, archive := range archives {
		layers = append(layers, layerOf(t, archive))
	}
	img, err := mutate.AppendLayers(empty.Image, layers...)
	check(t, err)
	config, err := img.ConfigFile()
	check(t, err)
	config = config.DeepCopy()
	config.OS, config.Architecture = "linux", runtime.GOARCH
	config.Config = v1.Config{Env: []string{"A=b=c", "PATH=/only"}, User: "1000:1000", WorkingDir: "srv/app", Entrypoint: []string{"/entry"}, Cmd: []string{"arg"}}
	img, err = mutate.ConfigFile(img, config)
	check(t, err)
	return img
}

func sampleImage(t testing.TB) v1.Image {
	t.Helper()
	return imageOf(t,
		tarOf(t, dir("etc/"), file("etc/name", "lower"), file("gone", ""), symlink("bin", "usr/bin"), file("usr/bin/tool", "#!")),
		tarOf(t, file("etc/name", "upper"), file(".wh.gone", ""), hardlink("etc/alias", "etc/name")))
}

func openStore(t testing.TB) *Store {
	t.Helper()
	s, err := Open(filepath.Join(t.TempDir(), "store"))
	check(t, err)
	return s
}

func resolve(t testing.TB, s *Store, ref string) Root {
	t.Helper()
	root, err := s.Resolve(context.Background(), ref, nil)
	check(t, err)
	return root
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// wantClass also holds every Invalid error to naming its field.
func wantClass(t testing.TB, err error, want sandbox.Class) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want class %v", want)
	}
	if got := sandbox.ClassOf(err); got != want {
		t.Fatalf("class %v, want %v: %v", got, want, err)
	}
	var typed *sandbox.Error
	if want == sandbox.Invalid && (!errors.As(err, &typed) || typed.Field != "image") {
		t.Errorf("the error names no field: %v", err)
	}
}

func read(t testing.TB, parts ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(parts...))
	check(t, err)
	return string(text)
}

func absent(t testing.TB, parts ...string) {
	t.Helper()
	if there, err := exists(filepath.Join(parts...)); there || err != nil {
		t.Errorf("%v is there (%v)", parts, err)
	}
}

// wantNothingLeft holds for every store at rest: no work, no locks.
func wantNothingLeft(t testing.TB, s *Store) {
	t.Helper()
	for _, part := range []string{"work", "locks"} {
		entries, err := os.ReadDir(filepath.Join(s.dir, part))
		check(t, err)
		for _, e := range entries {
			t.Errorf("%s/%s is left", part, e.Name())
		}
	}
}
