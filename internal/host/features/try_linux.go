package features

import (
	"time"

	"errors"
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"

	"aether/internal/host/spawn"
)

// trialTime bounds what a child of a trial waits for: it must not outlive a
// parent that died.
const trialTime = 5 * time.Second

// try has a child in new namespaces make the system calls of a script, and then
// end: the way in which the built-in engine itself makes sandboxes.
func try(flags uint64, calls func(*spawn.Script)) error {
	s, err := spawn.NewScript(0)
	if err != nil {
		return err
	}
	if flags&unix.CLONE_NEWUSER != 0 {
		mapIDs(s)
	}
	calls(s)
	s.Exit()
	err = run(s, flags)
	return errors.Join(err, s.Free())
}

func run(s *spawn.Script, flags uint64) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	started, err := s.Start(flags, -1)
	if err != nil {
		return err
	}
	child, err := started.Await()
	if err != nil {
		return err
	}
	_, err = child.Wait()
	return err
}

// mapIDs makes the child root of its user namespace.
func mapIDs(s *spawn.Script) {
	writeFile(s, "/proc/self/setgroups", "deny")
	writeFile(s, "/proc/self/uid_map", fmt.Sprintf("0 %d 1", os.Geteuid()))
	writeFile(s, "/proc/self/gid_map", fmt.Sprintf("0 %d 1", os.Getegid()))
}

func writeFile(s *spawn.Script, name, text string) {
	open := s.Call(unix.SYS_OPENAT, at(unix.AT_FDCWD), s.String(name), unix.O_WRONLY|unix.O_CLOEXEC)
	write := s.Call(unix.SYS_WRITE, 0, s.String(text), uintptr(len(text)))
	open.Into(write, 0)
}

// at is a directory descriptor, which may be negative, as an argument.
func at(fd int) uintptr { return uintptr(fd) }

func mount(s *spawn.Script, source, target, kind string, flags uintptr, options string) {
	s.Call(unix.SYS_MOUNT, s.String(source), s.String(target), s.String(kind), flags, s.String(options))
}

// private keeps the child's mounts from reaching anybody else. Unlike a new
// namespace alone it also needs a capability that some hosts take away.
func private(s *spawn.Script) { mount(s, "none", "/", "", unix.MS_REC|unix.MS_PRIVATE, "") }

func nothing(*spawn.Script) {}
