package blockdev

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"aether/sandbox"
)

// sysfsOf is a /sys/dev/block in plain files: a disk with one partition.
func sysfsOf(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	nodes := filepath.Join(root, "dev/block") + "/"
	for name, text := range map[string]string{"devices/sda/dev": "8:0\n", "devices/sda/sda1/dev": "8:1\n", "devices/sda/sda1/partition": "1\n"} {
		file := filepath.Join(root, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.MkdirAll(nodes, 0o755), os.Symlink("../../devices/sda", nodes+"8:0"), os.Symlink("../../devices/sda/sda1", nodes+"8:1")); err != nil {
		t.Fatal(err)
	}
	return nodes
}

func TestPartitionsAreOfTheirDisk(t *testing.T) {
	dir := sysfsOf(t)
	for _, minor := range []uint32{0, 1} {
		if disk, err := whole(dir, unix.Mkdev(8, minor)); err != nil || disk.String() != "8:0" {
			t.Errorf("8:%d is on %v, %v", minor, disk, err)
		}
	}
	if disk, err := whole(dir, unix.Mkdev(0, 41)); err == nil {
		t.Errorf("a device of no disk is on %v", disk)
	}
}

func TestUnknownFileSystemsAreRefused(t *testing.T) {
	for _, kind := range []string{"overlay", "btrfs", "xfs", "nfs", "fuse", "ext4"} { // of which this one is on no disk
		_, err := Disks([]FileSystem{{Path: "/where", Type: kind, Device: unix.Mkdev(0, 41)}}, false)
		var e *sandbox.Error
		if !errors.As(err, &e) || e.Class != sandbox.Unavailable || !strings.Contains(e.Reason, "/where") || e.Remedy == "" {
			t.Errorf("%s: %v", kind, err)
		}
	}
	if disks, err := Disks([]FileSystem{{Type: "tmpfs"}, {Type: "proc"}}, true); err != nil || len(disks) > 0 {
		t.Errorf("memory is on %v, %v", disks, err)
	}
}

func TestMounted(t *testing.T) {
	const text = "96 141 254:1 /tmp/x /mnt ro,idmapped shared:3 - ext4 /dev/vda rw\n" +
		"141 106 0:91 / / rw - overlay overlay rw,lowerdir=/l1:/l0,upperdir=/t/u\n" +
		"142 106 0:92 / /host rw - overlay overlay rw,lowerdir=/var/lower,upperdir=/var/upper\n" +
		"not a mount\n"
	own := func(options string) bool { return strings.Contains(options, "lowerdir=/l1:/l0") }
	got := Mounted(text, own)
	want := []FileSystem{{"/mnt", "ext4", unix.Mkdev(254, 1)}, {"/host", "overlay", unix.Mkdev(0, 92)}}
	if len(got) != 2 || got[0] != want[0] || got[1] != want[1] {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func TestAtKnowsWhatThisHostHas(t *testing.T) {
	for path, kind := range map[string]string{"/dev/shm": "tmpfs", "/proc": "a file system of the kind 0x9fa0"} {
		file, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		if f, err := At(file, path); err != nil || f.Type != kind {
			t.Errorf("%s is %+v, %v", path, f, err)
		}
	}
}
