package inroot

import (
	"os"

	"golang.org/x/sys/unix"
)

// capabilities are those of one thread, in the two halves that the kernel has them in.
type capabilities [2]unix.CapUserData

func threadCapabilities() (c capabilities, err error) {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	return c, os.NewSyscallError("capget", unix.Capget(&header, &c[0]))
}

// set makes them those of this thread.
func (c capabilities) set() error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	return os.NewSyscallError("capset", unix.Capset(&header, &c[0]))
}

// idle are the same, of which none is in effect. Those that are permitted let the
// thread have the others back.
func (c capabilities) idle() capabilities {
	for i := range c {
		c[i].Effective = 0
	}
	return c
}
