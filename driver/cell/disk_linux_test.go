package cell_test

import (
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"aether/sandbox"
)

// onDiskSpec is a cell whose writes are on disk.
var onDiskSpec = sandbox.Spec{Limits: sandbox.Limits{DiskBacked: true}}

// filesBelow lists the regular files in a directory.
func filesBelow(t *testing.T, dir string) (found []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Type().IsRegular() {
			found = append(found, path)
		}
		return nil // a directory that cannot be read, or is gone, holds nothing for us
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestWritesOnDisk(t *testing.T) {
	driver, dir := newDriver(t)
	instance, err := driver.Create(t.Context(), onDiskSpec)
	if err != nil {
		t.Fatal(err)
	}
	got, err := try(t.Context(), client(t, instance), shell("echo kept > /home/user/file; mkdir /tmp/closed; chmod 0 /tmp/closed; mv /home/user/file /home/user/moved; cat /home/user/moved; df -P /dev/shm | tail -1"))
	if err != nil || !strings.HasPrefix(got.stdout, "kept\n") || !strings.Contains(got.stdout, "tmpfs") {
		t.Errorf("%+v, %v", got, err)
	}
	var found bool
	for _, path := range filesBelow(t, dir) {
		found = found || strings.HasSuffix(path, "/u/home/user/moved")
	}
	if !found {
		t.Errorf("the file is not on disk: %v", filesBelow(t, dir))
	}
	destroy(t, instance)
	for _, path := range filesBelow(t, dir) {
		if strings.Contains(path, "/u/") {
			t.Errorf("%s is left", path)
		}
	}
}

func TestABoundOnDiskIsUnsupported(t *testing.T) {
	driver, _ := newDriver(t)
	_, err := driver.Create(t.Context(), sandbox.Spec{Limits: sandbox.Limits{DiskBacked: true, DiskBytes: 1 << 20}})
	wantClass(t, err, sandbox.Unsupported, "limits.disk")
}
