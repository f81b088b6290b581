package flatten

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"aether/image"
)

// TestName: the same content has one name, and whatever makes another image has
// another.
func TestName(t *testing.T) {
	dir := t.TempDir()
	names := map[string]string{}
	add := func(what, as, digest string) {
		name, err := Name(t.Context(), as, image.Root{Digest: digest}, []string{dir})
		if err != nil {
			t.Fatal(err)
		}
		if again, err := Name(t.Context(), as, image.Root{Digest: digest}, []string{dir}); again != name || err != nil {
			t.Errorf("%s: %s and %s, %v", what, name, again, err)
		}
		if names[name] != "" {
			t.Errorf("%s and %s are both %s", what, names[name], name)
		}
		names[name] = what
	}
	add("a directory", "one", "")
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	add("a changed directory", "one", "")
	add("an image", "one", "sha256:1")
	add("another image", "one", "sha256:2")
	add("another form", "two", "sha256:1")
}

// TestSend: whichever side fails first is the one that is told of.
func TestSend(t *testing.T) {
	full, broken := errors.New("full"), errors.New("broken")
	write := func(w io.Writer) error { _, err := w.Write([]byte("text")); return err }
	for name, c := range map[string]struct {
		pack func(io.Writer) error
		send func(io.Reader) error
		want error
	}{
		"none":     {write, func(r io.Reader) error { _, err := io.ReadAll(r); return err }, nil},
		"packer":   {func(io.Writer) error { return broken }, func(r io.Reader) error { _, err := io.ReadAll(r); return err }, broken},
		"receiver": {write, func(io.Reader) error { return full }, full},
		"at last":  {write, func(r io.Reader) error { _, _ = io.ReadAll(r); return full }, full},
	} {
		if got := Send(c.pack, c.send); !errors.Is(got, c.want) {
			t.Errorf("%s: %v", name, got)
		}
	}
}
