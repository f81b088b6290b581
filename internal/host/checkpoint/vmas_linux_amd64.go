package checkpoint

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// mappings are those of a process, in the order of their addresses.
type mappings struct {
	vmas    []VMA
	shared  []VMA // those that children map anew, apart from the others
	private []run // the mappings whose pages children have too
}

// readVMAs reads the mappings. Their flags are slow to read, and are those of
// before if the mappings are.
func (s *State) readVMAs(was *State, paths bool) (err error) {
	wiped := func(a VMA) bool { return a.has("wf") } // other memory may have come to its place
	if was != nil && !slices.ContainsFunc(was.asRead.vmas, wiped) {
		if s.unchanged, err = s.sameOutline(was.outline); err != nil {
			return err
		}
	}
	if s.unchanged {
		s.outline, s.asRead, s.mappings = was.outline, was.asRead, was.asRead
		return nil
	}
	if s.outline, err = readOutline(s.PID, paths); err != nil {
		return err
	}
	f, err := os.Open(fmt.Sprintf("/proc/%d/smaps", s.PID))
	if err != nil {
		return err
	}
	defer f.Close()
	all, err := parseMaps(f)
	s.mappings = splitMappings(all)
	s.asRead = s.mappings
	return err
}

// splitMappings tells what is shared from what a zygote has.
func splitMappings(all []VMA) (m mappings) {
	for _, a := range all {
		if a.Shared && !kernelVMA(a) {
			m.shared = append(m.shared, a)
			continue
		}
		m.vmas = append(m.vmas, a)
		if !kernelVMA(a) && !a.Shared && !a.has("wf") {
			m.private = append(m.private, run{a.Start, a.End})
		}
	}
	return m
}

// outline is what tells the mappings of a process from others: a text with their
// paths, or a list without, since paths take longer to read than all the rest.
// Kernels before 6.11 have no list.
type outline struct {
	text []byte
	list []procmapQuery
}

// procmapQuery is the kernel's struct procmap_query.
type procmapQuery struct {
	size, flags, address                    uint64
	start, end, access, page, offset, inode uint64
	major, minor                            uint32
	nameSize, buildSize                     uint32
	name, build                             uint64
}

const (
	procmapQueryIoctl = 0xc0686611 // PROCMAP_QUERY
	coveringOrNext    = 0x10
)

func readOutline(pid int, paths bool) (o outline, err error) {
	path := fmt.Sprintf("/proc/%d/maps", pid)
	if !paths {
		err = eachMapping(path, func(m procmapQuery) bool {
			o.list = append(o.list, m)
			return len(o.list) < maxVMAs
		})
	}
	if err == nil && o.list == nil {
		o.text, err = readProc(path)
	}
	return o, err
}

// sameOutline says whether the process has the mappings that it had.
func (s *State) sameOutline(was outline) (bool, error) {
	path := fmt.Sprintf("/proc/%d/maps", s.PID)
	if was.list == nil {
		text, err := readProc(path)
		return bytes.Equal(text, was.text), err
	}
	rest := was.list
	err := eachMapping(path, func(m procmapQuery) bool {
		if len(rest) == 0 || m != rest[0] {
			rest = nil
			return false
		}
		rest = rest[1:]
		return true
	})
	return rest != nil && len(rest) == 0, err
}

// eachMapping gives the mappings one after another, until it is told to stop. It
// gives none if the kernel cannot.
func eachMapping(path string, give func(procmapQuery) bool) error {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(fd)
	var m procmapQuery
	for {
		m = procmapQuery{size: uint64(unsafe.Sizeof(m)), flags: coveringOrNext, address: m.end}
		_, _, errno := syscall.RawSyscall(unix.SYS_IOCTL, uintptr(fd), procmapQueryIoctl, uintptr(unsafe.Pointer(&m)))
		switch {
		case errno == unix.ENOENT || errno == unix.ENOTTY:
			return nil
		case errno != 0:
			return os.NewSyscallError("ioctl", errno)
		case !give(m):
			return nil
		}
	}
}
