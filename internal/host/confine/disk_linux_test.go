package confine

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"aether/internal/host/storedir"
	"aether/sandbox"
)

// newDisk is an empty directory that cells' ids may pass through.
func newDisk(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "disk")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := storedir.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func TestBoundedDisk(t *testing.T) {
	const size = 8 << 20
	host, dir := openHost(t), newDisk(t)
	if err := host.BoundsDisks(size); err != nil {
		if sandbox.ClassOf(err) != sandbox.Unsupported {
			t.Error(err)
		}
		t.Skip(err)
	}
	base, err := host.Prepare(hostTree(t))
	if err != nil {
		t.Fatal(err)
	}
	defer base.Close()
	if err := host.MakeBoundedDisk(t.Context(), dir, size); err != nil {
		t.Fatal(err)
	}
	cell, err := base.Boot(Config{Hostname: "cell", Disk: dir, Group: noGroup})
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer endCell(t, cell)
	wantRoom(t, cell, size*8/10, size)
	if out, code := sh(t, cell, "head -c 16777216 /dev/zero > /tmp/file"); code == 0 || !strings.Contains(out, "No space left") {
		t.Errorf("%q, code %d", out, code)
	}
	wantRoom(t, cell, 0, 4095)
	if out, code := sh(t, cell, "rm /tmp/file && echo small > /tmp/file && cat /tmp/file"); out != "small" || code != 0 {
		t.Errorf("%q, code %d", out, code)
	}
}

func wantRoom(t *testing.T, cell *Cell, least, most int64) {
	t.Helper()
	written, left, err := cell.Usage()
	if err != nil || left < least || left > most || written < 0 {
		t.Errorf("%d bytes written and %d left, %v; want %d to %d left", written, left, err, least, most)
	}
}
