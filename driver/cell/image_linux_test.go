package cell_test

import (
	"archive/tar"
	"bytes"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"aether/sandbox"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// borrowed is how a test image gets programs to run: the host's, by links and
// mounts as the host has them.
func borrowed(t *testing.T) (links map[string]string, mounts []sandbox.Mount) {
	t.Helper()
	links = map[string]string{}
	for _, name := range []string{"usr", "bin", "lib", "lib64"} {
		info, err := os.Lstat("/" + name)
		if os.IsNotExist(err) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Type() == os.ModeSymlink {
			links[name] = "usr/" + name
			continue
		}
		mounts = append(mounts, sandbox.Mount{Source: "/" + name, Target: "/" + name})
	}
	return links, mounts
}

func TestDirectoryImage(t *testing.T) {
	links, mounts := borrowed(t)
	dir := t.TempDir()
	for name, target := range links {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "hello"), []byte("from the image"), 0o644); err != nil {
		t.Fatal(err)
	}
	user := "1000"
	instance := newCell(t, sandbox.Spec{Image: dir, Mounts: mounts, Command: sandbox.CommandDefaults{User: user}})
	if got := sh(t, instance, "cat /hello; echo; id -u"); got != "from the image\n"+user {
		t.Errorf("got %q", got)
	}
	sh(t, create(t, firstDriver(t), sandbox.Spec{Image: dir, Mounts: mounts}), "echo changed > /tmp/x")
	if left, err := filepath.Glob(filepath.Join(dir, "tmp", "*")); err != nil || len(left) > 0 {
		t.Errorf("a cell wrote %q to its image (%v)", left, err)
	}
}

func TestLayoutImage(t *testing.T) {
	links, mounts := borrowed(t)
	lower := map[string]string{"etc/passwd": "app:x:1000:1000::/srv/app:/bin/sh\n", "srv/app/name": "lower", "gone": ""}
	upper := map[string]string{"srv/app/name": "upper", ".wh.gone": ""}
	ref := writeLayout(t, v1.Config{Env: []string{"GREETING=hi"}, User: "app", WorkingDir: "/srv/app"},
		archive(t, lower, links), archive(t, upper, nil))
	driver, _ := newDriver(t)
	instance := create(t, driver, sandbox.Spec{Image: ref, Mounts: mounts})
	if got, want := sh(t, instance, "cat name; echo; echo $GREETING $PWD $(id -u); ls /gone 2>/dev/null || echo none"), "upper\nhi /srv/app 1000\nnone"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	other := create(t, driver, sandbox.Spec{Image: ref, Mounts: mounts,
		Command: sandbox.CommandDefaults{Env: map[string]string{"GREETING": "ho"}, WorkDir: "/"}})
	if got := sh(t, other, "echo $GREETING $PWD"); got != "ho /" {
		t.Errorf("the Spec does not override the image: %q", got)
	}
}

func archive(t *testing.T, files, links map[string]string) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	add := func(h tar.Header, text string) {
		h.Size = int64(len(text))
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, text); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range files {
		add(tar.Header{Name: name, Mode: 0o644}, text)
	}
	for name, target := range links {
		add(tar.Header{Name: name, Typeflag: tar.TypeSymlink, Linkname: target, Mode: 0o777}, "")
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// writeLayout writes a real OCI layout with one image.
func writeLayout(t *testing.T, config v1.Config, archives ...[]byte) string {
	t.Helper()
	image := empty.Image
	for _, archive := range archives {
		layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(archive)), nil })
		if err != nil {
			t.Fatal(err)
		}
		if image, err = mutate.AppendLayers(image, layer); err != nil {
			t.Fatal(err)
		}
	}
	file, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	file = file.DeepCopy()
	file.OS, file.Architecture, file.Config = "linux", runtime.GOARCH, config
	if image, err = mutate.ConfigFile(image, file); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "layout")
	path, err := layout.Write(dir, empty.Index)
	if err != nil {
		t.Fatal(err)
	}
	if err := path.AppendImage(image); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestHostImageKeepsSecrets(t *testing.T) {
	instance := newCell(t, sandbox.Spec{})
	for _, name := range []string{"/etc/shadow", "/root/.ssh", "/home/user/.ssh", "/run/*", "/var/run/*", "/sys/*", scratch} {
		if got := sh(t, instance, "ls -d "+name+" 2>/dev/null || echo none"); got != "none" {
			t.Errorf("a cell sees %s: %q", name, got)
		}
	}
	if got := sh(t, instance, "ls /dev"); strings.Contains(got, "kmsg") || strings.Contains(got, "sda") {
		t.Errorf("/dev holds %q", got)
	}
}
