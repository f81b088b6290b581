package netdev

import (
	"fmt"
	"os"

	"aether/internal/host/spawn"

	"golang.org/x/sys/unix"
)

// Configure gives a device that is in the net namespace at the end of a way, by its name,
// the addresses and routes that Open gives a tap, and turns version 6 off for it.
//
// Errors: spawn.Failure names the step that the kernel refused.
func (t Tap) Configure(way Way) error {
	s, err := spawn.NewScript(8 << 10)
	if err != nil {
		return fmt.Errorf("netdev: %w", err)
	}
	hasVersion6, err := exists("/proc/sys/net/ipv6")
	if err != nil {
		return err
	}
	s.TellParted()
	s.Call(unix.SYS_PRCTL, unix.PR_SET_DUMPABLE, 0)
	way.enter(s)
	if hasVersion6 {
		here := unix.AT_FDCWD
		s.Call(unix.SYS_OPENAT, uintptr(here), s.String("/proc/sys/net/ipv6/conf/"+t.Name+"/disable_ipv6"), unix.O_WRONLY|unix.O_CLOEXEC, 0).
			Into(s.Call(unix.SYS_WRITE, 0, s.String("1"), 1), 0)
	}
	t.configure(s)
	s.Exit()
	if err := spawn.Hidden(func() error { return walk(s, nil) }); err != nil {
		return fmt.Errorf("netdev: %w", err)
	}
	return nil
}

func exists(path string) (bool, error) {
	_, err := os.Stat(path)
	if os.IsNotExist(err) {
		return false, nil
	}
	return err == nil, err
}
