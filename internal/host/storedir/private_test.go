package storedir

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"aether/sandbox"
)

// TestReadPrivate: what is not a file of this user alone is refused, and not waited for.
func TestReadPrivate(t *testing.T) {
	name := filepath.Join(t.TempDir(), "key")
	if _, err := ReadPrivate(name, 4); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if err := os.WriteFile(name, []byte("four"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := ReadPrivate(name, 4); err != nil || string(got) != "four" {
		t.Errorf("%q, %v", got, err)
	}
	refused := func(what, name string, size int64) {
		t.Helper()
		if got, err := ReadPrivate(name, size); sandbox.ClassOf(err) != sandbox.Denied || got != nil {
			t.Errorf("%s: %q, %v", what, got, err)
		}
	}
	refused("longer", name, 3)
	refused("shorter", name, 5)
	link, fifo := name+".link", name+".fifo"
	if err := errors.Join(os.Symlink(name, link), syscall.Mkfifo(fifo, 0o600)); err != nil {
		t.Fatal(err)
	}
	refused("a link", link, 4)
	refused("a fifo without a writer", fifo, 4)
	for _, mode := range []os.FileMode{0o640, 0o604, 0o620, 0o602, 0o610} {
		if err := os.Chmod(name, mode); err != nil {
			t.Fatal(err)
		}
		refused(mode.String(), name, 4)
	}
}
