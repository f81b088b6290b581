package confine

import (
	"errors"
	"os"
	"testing"
)

// TestRoot: both ways to a cell's root lead to the same directory while it lives, and to
// none once it has ended.
func TestRoot(t *testing.T) {
	h := openHost(t)
	cell := bootFrom(t, writable(t, h), Config{Upper: 1 << 20, Group: noGroup})
	byName := func() (file *os.File, err error) {
		gone := cell.init.Fd(func(pidfd int) { file, err = cell.rootByName(pidfd) })
		return file, errors.Join(gone, err)
	}
	var found []os.FileInfo
	for _, open := range []func() (*os.File, error){cell.Root, byName} {
		root, err := open()
		if err != nil {
			t.Fatal(err)
		}
		info, err := root.Stat()
		if err = errors.Join(err, root.Close()); err != nil {
			t.Fatal(err)
		}
		found = append(found, info)
	}
	if !os.SameFile(found[0], found[1]) {
		t.Errorf("%v and %v are not one directory", found[0], found[1])
	}
	if err := cell.Kill(); err != nil {
		t.Fatal(err)
	}
	if _, err := cell.Wait(); err != nil {
		t.Fatal(err)
	}
	for _, open := range []func() (*os.File, error){cell.Root, byName} {
		if root, err := open(); err == nil {
			t.Errorf("the root of a cell that has ended: %s", root.Name())
		}
	}
}
