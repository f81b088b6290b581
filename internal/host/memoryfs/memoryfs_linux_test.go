package memoryfs

import (
	"errors"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// TestMakeDevices: everybody may open the nodes, whatever this program's mask is, and they
// are what they say; and what the file system may hold is bounded.
func TestMakeDevices(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root makes devices")
	}
	mount, err := New(unix.MOUNT_ATTR_NOSUID, [2]string{"size", "4096"}, [2]string{"mode", "755"})
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(mount)
	defer unix.Umask(unix.Umask(0o077))
	if err := MakeDevices(mount, "."); err != nil {
		t.Fatal(err)
	}
	for _, d := range Devices {
		var st unix.Stat_t
		if err := unix.Fstatat(mount, d.Name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil || st.Mode != unix.S_IFCHR|0o666 || st.Rdev != unix.Mkdev(d.major, d.minor) {
			t.Errorf("%s: %#o, %x, %v", d.Name, st.Mode, st.Rdev, err)
		}
	}
	zeros := write(t, mount, "zero", 4097)
	if err := write(t, mount, "file", 4097); zeros != nil || !errors.Is(err, unix.ENOSPC) {
		t.Errorf("a page and a byte, to /dev/zero: %v; to a file in a page of memory: %v", zeros, err)
	}
}

func write(t *testing.T, dir int, name string, bytes int) error {
	t.Helper()
	fd, err := unix.Openat(dir, name, unix.O_WRONLY|unix.O_CREAT|unix.O_CLOEXEC, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	file := os.NewFile(uintptr(fd), name)
	defer file.Close()
	_, err = file.Write(make([]byte, bytes))
	return err
}

// TestNew: options that make no sense are named.
func TestNew(t *testing.T) {
	if mount, err := New(0, [2]string{"size", "much"}); err == nil {
		t.Errorf("a file system of size much: %d", mount)
	}
}
