package confine

import (
	"fmt"
	"strconv"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// using is one kind of things of which the kernel has a number for the whole host, or
// for one user of it.
type using struct {
	name string
	// take takes one more of them, or some.
	take func() error
	// most is enough of them, and cells how many cells it takes to have all: one if
	// it is zero.
	most, cells int
	// shared says that ordinary users share it among their cells and themselves: the
	// kernel counts it for a user, and they have one id.
	shared bool
}

func usings() []using {
	return []using{
		{name: "asynchronous requests", take: takeRequests, most: 1 << 16},
		{name: "pages of pipes", take: takePages, most: 1 << 12, shared: true},
		{name: "descriptors on their way", take: descriptorTaker(), most: 1 << 17, shared: true},
		{name: "inotify instances", take: func() error { _, err := unix.InotifyInit1(0); return err }, most: 1 << 10, cells: 5, shared: true},
		{name: "inotify watches", take: watchTaker(), most: 1 << 18, shared: true},
	}
}

// exhaust takes all that it gets of one kind, says how much that was, and keeps it.
func exhaust(f facts) error {
	if err := allDescriptors(); err != nil {
		return err
	}
	for _, u := range usings() {
		if u.name == f.Kind {
			if err := repeat(u.most, func(int) error { return u.take() }); err != nil {
				return err
			}
			time.Sleep(time.Minute)
			return nil
		}
	}
	return fmt.Errorf("there is no kind %q", f.Kind)
}

// takeRequests makes room for a thousand requests, or as few as the kernel gives.
func takeRequests() error {
	var err error
	for _, n := range []uintptr{1024, 16, 1} {
		var context uintptr
		if err = call(unix.SYS_IO_SETUP, n, uintptr(unsafe.Pointer(&context))); err == nil {
			return nil
		}
	}
	return err
}

// takePages takes a pipe, and a mebibyte for it while it gets that.
func takePages() error {
	var ends [2]int
	if err := unix.Pipe2(ends[:], unix.O_NONBLOCK); err != nil {
		return err
	}
	for size := chunk; size >= 8192; size /= 2 {
		if _, err := unix.FcntlInt(uintptr(ends[1]), unix.F_SETPIPE_SZ, size); err == nil {
			break
		}
	}
	return nil
}

// descriptorTaker sends descriptors that nobody receives.
func descriptorTaker() func() error {
	var pair [2]int
	sent := 0
	return func() (err error) {
		if sent++; sent%8 == 1 {
			if pair, err = unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK, 0); err != nil {
				return err
			}
		}
		many := make([]int, 200)
		for i := range many {
			many[i] = pair[0]
		}
		return unix.Sendmsg(pair[0], []byte{0}, unix.UnixRights(many...), nil, 0)
	}
}

// watchTaker watches one more file, of its own.
func watchTaker() func() error {
	instance, made := -1, 0
	return func() (err error) {
		if instance < 0 {
			if instance, err = unix.InotifyInit1(0); err != nil {
				return err
			}
		}
		made++
		path := "/dev/shm/watched" + strconv.Itoa(made)
		fd, err := unix.Open(path, unix.O_CREAT|unix.O_RDWR, 0o600)
		if err != nil {
			return err
		}
		unix.Close(fd)
		_, err = unix.InotifyAddWatch(instance, path, unix.IN_ALL_EVENTS)
		return err
	}
}
