package incus

import (
	"archive/tar"
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestPack: first comes a description, which names the image, and then a directory
// with its files.
func TestPack(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "file"), []byte("text"), 0o644); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := pack(t.Context(), label{"the name", "the source"}, []string{dir}, &out); err != nil {
		t.Fatal(err)
	}
	r := tar.NewReader(&out)
	for _, want := range []struct{ name, text string }{{"metadata.yaml", `aether.image: "the name"`}, {"rootfs/", ""}, {"rootfs/file", "text"}} {
		h, err := r.Next()
		if err != nil {
			t.Fatal(err)
		}
		if text, err := io.ReadAll(r); err != nil || h.Name != want.name || !strings.Contains(string(text), want.text) {
			t.Errorf("%s: %s, %v", h.Name, text, err)
		}
	}
	if _, err := r.Next(); err != io.EOF {
		t.Errorf("there is more: %v", err)
	}
}
