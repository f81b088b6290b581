package confine

import (
	"fmt"
	"os"
	"strings"
	"time"

	"aether/internal/host/spawn"
	"aether/internal/host/sysinfo"
	"aether/sandbox"

	"golang.org/x/sys/unix"
)

// offsetsFile is where a process says how far the clocks of the time namespace that its
// children are to be in are ahead of the host's.
const offsetsFile = "/proc/self/timens_offsets"

// Advance has the clocks that count from the start of the host be ahead of it in the cell,
// for processes that were running when another host, or this one, had been up for longer.
// Nothing may run in the cell yet. Errors: Conflict where the kernel has no such clocks.
//
// Each command has a time namespace of its own, and all of them the same offsets: a process
// that shares the memory of this program, as those that enter a cell do, may not join one,
// but may make one, in which the program is that it then executes. Kernels before 6.2 leave
// that program outside.
func (c *Cell) Advance(by time.Duration) error {
	if by <= 0 {
		return nil
	}
	if err := OwnClocks(); err != nil {
		return err
	}
	own, err := ownOffsets()
	if err != nil {
		return err
	}
	c.clock, c.offsets = by, own.advance(by)
	return c.dismiss() // who stands by has the host's clocks
}

// Clock is how far the cell's clocks are ahead of this program's.
func (c *Cell) Clock() time.Duration { return c.clock }

// OwnClocks says whether cells can have clocks of their own. Errors: Conflict.
func OwnClocks() error {
	refusal := &sandbox.Error{Class: sandbox.Conflict, Reason: "the host has been up for less time than the processes know of, and this kernel cannot have a sandbox count its own",
		Remedy: "Linux 6.2 or newer, with time namespaces"}
	if _, err := os.Stat(offsetsFile); err != nil {
		refusal.Err = err
		return refusal
	}
	release, err := sysinfo.Release()
	if err != nil {
		return err
	}
	var major, minor int
	if n, _ := fmt.Sscanf(release, "%d.%d", &major, &minor); n != 2 || major < 6 || major == 6 && minor < 2 {
		return refusal
	}
	return nil
}

// offsets are how far clocks are ahead of the host's own, by their names.
type offsets map[string]time.Duration

// ownOffsets are those of this program, which may itself be in a time namespace.
func ownOffsets() (offsets, error) {
	text, err := os.ReadFile(offsetsFile)
	if err != nil {
		return nil, err
	}
	return parseOffsets(string(text))
}

func parseOffsets(text string) (offsets, error) {
	list := offsets{}
	for line := range strings.Lines(text) {
		var name string
		var seconds, nanos int64
		if _, err := fmt.Sscan(line, &name, &seconds, &nanos); err != nil {
			return nil, fmt.Errorf("confine: %s has %.80q", offsetsFile, line)
		}
		list[name] = time.Duration(seconds)*time.Second + time.Duration(nanos)
	}
	return list, nil
}

// advance is what a process has to write to have all clocks be further ahead.
func (o offsets) advance(by time.Duration) string {
	text := ""
	for _, name := range []string{"monotonic", "boottime"} {
		ahead := o[name] + by
		seconds := ahead.Truncate(time.Second)
		if seconds > ahead {
			seconds -= time.Second // a part of a second is never negative
		}
		text += fmt.Sprintf("%s %d %d\n", name, seconds/time.Second, ahead-seconds)
	}
	return text
}

// openOffsets appends the opening of the file of offsets, while the process is still where
// it has a number and is who may. It gives nothing for a cell that has the host's clocks.
func (s script) openOffsets(c *Cell) *spawn.Step {
	if c.offsets == "" {
		return nil
	}
	if c.host.Identity.Single {
		s.prctl(unix.PR_SET_DUMPABLE, 1) // or the file belongs to root
	}
	file := s.Call(unix.SYS_OPENAT, here, s.String(offsetsFile), unix.O_WRONLY|unix.O_CLOEXEC, 0)
	return &file
}

// ownClock appends the making of a time namespace for those whom the process clones with a
// memory of their own, and for the program that it executes. It must be the cell's root.
func (s script) ownClock(c *Cell, file *spawn.Step) {
	if file == nil {
		return
	}
	s.Call(unix.SYS_UNSHARE, unix.CLONE_NEWTIME)
	file.Into(s.Call(unix.SYS_WRITE, 0, s.String(c.offsets), uintptr(len(c.offsets))), 0)
}
