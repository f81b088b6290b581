package inroot

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestPlain: without openat2 only this process's own root is a root.
func TestPlain(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("file", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	inRoot, below := unix.OpenHow{Resolve: resolve}, unix.OpenHow{Resolve: unix.RESOLVE_BENEATH}
	for _, c := range []struct {
		dir, name string
		how       unix.OpenHow
		want      error
	}{
		{"/", filepath.Join(dir, "link"), inRoot, nil},
		{"/", "../../" + filepath.Join(dir, "file"), inRoot, nil},
		{"/", filepath.Join(dir, "missing"), inRoot, unix.ENOENT},
		{dir, "file", inRoot, unix.ENOSYS},
		{dir, "file", below, nil},
		{dir, "link", below, unix.ELOOP},
		{dir, "..", below, unix.EXDEV},
		{dir, "../file", below, unix.EXDEV},
	} {
		at, err := os.Open(c.dir)
		if err != nil {
			t.Fatal(err)
		}
		fd, err := plain(at, c.name, &c.how)
		if !errors.Is(err, c.want) {
			t.Errorf("%s in %s: %v, want %v", c.name, c.dir, err, c.want)
		}
		if err == nil {
			unix.Close(fd)
		}
		at.Close()
	}
}
