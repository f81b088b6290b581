package confine

import (
	"fmt"
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
	// most is enough of them.
	most int
}

func usings() []using {
	return []using{
		{name: "asynchronous requests", take: takeRequests, most: 1 << 16},
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
