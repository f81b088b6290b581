package isolationprobe

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// ordinary are the devices that act on nobody but who opens them.
var ordinary = []string{"null", "zero", "full", "random", "urandom", "tty", "console", "ptmx"}

// maxNodes bounds how much of /dev is looked at.
const maxNodes = 20_000

// devices are the nodes in /dev, which are looked at and never opened: a watchdog, for one,
// begins to run when it is.
func devices() (nodes map[string]fs.FileMode, err error) {
	nodes = map[string]fs.FileMode{}
	seen := 0
	err = filepath.WalkDir("/dev", func(name string, entry fs.DirEntry, err error) error {
		if seen++; seen > maxNodes {
			return fs.SkipAll
		}
		switch {
		case err != nil && name == "/dev":
			return err
		case err != nil || name == "/dev/pts" || name == "/dev/shm":
			return fs.SkipDir
		case entry.Type()&fs.ModeDevice != 0:
			nodes[strings.TrimPrefix(name, "/dev/")] = entry.Type()
		}
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return nodes, err
}

// nodes is open if one of the devices in /dev is of a kind.
func nodes(is func(name string, mode fs.FileMode) bool) func(*looker) Sighting {
	return func(*looker) Sighting {
		all, err := devices()
		if err != nil {
			return unknown("%v", err)
		}
		var found []string
		for name, mode := range all {
			if is(name, mode) {
				found = append(found, name)
			}
		}
		slices.Sort(found)
		if len(found) > 0 {
			return open("%d: %s", len(found), strings.Join(found[:min(len(found), 8)], ", "))
		}
		return closed("none of %d nodes", len(all))
	}
}

func called(names ...string) func(*looker) Sighting {
	return nodes(func(name string, _ fs.FileMode) bool { return slices.Contains(names, name) })
}

var deviceProbes = []probe{
	{"dev-nodes", nodes(func(name string, _ fs.FileMode) bool { return !slices.Contains(ordinary, name) })},
	{"dev-disks", nodes(func(_ string, mode fs.FileMode) bool { return mode&fs.ModeCharDevice == 0 })},
	{"dev-memory", called("mem", "kmem", "port")},
	{"dev-kvm", called("kvm", "vhost-net", "vhost-vsock", "vfio/vfio")},
	{"dev-kmsg", called("kmsg")},
	{"dev-fuse", called("fuse", "net/tun", "loop-control", "mapper/control")},
	{"dev-mknod", mknod},
	{"raw-sockets", rawSockets},
	{"packet-sockets", packetSockets},
}

// mknod makes another node of /dev/null, asks whether it opens, and removes it.
func mknod(*looker) Sighting {
	dir, err := os.MkdirTemp("", "aether-probe-")
	if err != nil {
		return unknown("%v", err)
	}
	defer os.RemoveAll(dir)
	name := filepath.Join(dir, "null")
	if err := unix.Mknod(name, unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3))); err != nil {
		return closed("mknod: %v", err)
	}
	f, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		return closed("a node can be made, and not opened: %v", err)
	}
	f.Close()
	return open("a device node can be made and opened")
}

func rawSockets(*looker) Sighting {
	return socket("raw", unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP)
}

func packetSockets(*looker) Sighting { return socket("packet", unix.AF_PACKET, unix.SOCK_RAW, 0) }

func socket(name string, family, kind, protocol int) Sighting {
	fd, err := unix.Socket(family, kind|unix.SOCK_CLOEXEC, protocol)
	if err == nil {
		unix.Close(fd)
	}
	return whether(err == nil, fmt.Sprintf("a %s socket: %v", name, result(err)))
}
