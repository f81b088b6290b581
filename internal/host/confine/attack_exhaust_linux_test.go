package confine

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// Exhausting roles print how far they came and the errno that stopped them.

func stopped(count int, err error) error {
	var errno unix.Errno
	errors.As(err, &errno)
	fmt.Println(count, unix.ErrnoName(errno))
	return nil
}

// repeat calls fn until it fails or the limit is reached.
func repeat(limit int, fn func(i int) error) error {
	for i := range limit {
		if err := fn(i); err != nil {
			return stopped(i, err)
		}
	}
	return stopped(limit, nil)
}

// hog touches so many megabytes of memory.
func hog(f facts) error {
	var kept [][]byte
	fmt.Println("ready")
	return repeat(f.Limit, func(int) error {
		block := make([]byte, 1<<20)
		for i := 0; i < len(block); i += 4096 {
			block[i] = 1
		}
		kept = append(kept, block)
		return nil
	})
}

// fill writes megabytes to /tmp until there is no room, then to /dev/shm, which
// must have none either.
func fill(f facts) error {
	file, err := os.Create("/tmp/fill")
	if err != nil {
		return err
	}
	block := make([]byte, 1<<20)
	if err := repeat(f.Limit, func(int) error { _, err := file.Write(block); return err }); err != nil {
		return err
	}
	return stopped(0, os.WriteFile("/dev/shm/fill", block, 0o600))
}

func inodes(f facts) error {
	return repeat(f.Limit, func(i int) error { return os.WriteFile("/tmp/i"+strconv.Itoa(i), nil, 0o600) })
}

func descriptors(f facts) error {
	return repeat(f.Limit, func(int) error { _, err := unix.Open("/dev/null", unix.O_RDONLY, 0); return err })
}

func terminals(f facts) error {
	return repeat(f.Limit, func(int) error { _, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY, 0); return err })
}

// watchers takes inotify instances, which the kernel counts for the user outside
// who made the cell's user namespace too.
func watchers(f facts) error {
	return repeat(f.Limit, func(int) error { _, err := unix.InotifyInit(); return err })
}

// threads starts threads. Go ends the program when it gets no more, so each one
// is announced.
func threads(f facts) error {
	for i := range f.Limit {
		started := make(chan struct{})
		go func() {
			runtime.LockOSThread()
			close(started)
			time.Sleep(time.Minute)
		}()
		<-started
		fmt.Println(i)
	}
	return nil
}
