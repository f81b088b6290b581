package checkpoint

import (
	"fmt"
	"strconv"
	"strings"
)

// Kind is what a descriptor stands for.
type Kind string

// Kinds of descriptors. What is not among them is Other and cannot be carried
// over.
const (
	File    Kind = "file"
	Deleted Kind = "file that was removed"
	Virtual Kind = "file of the kernel or device" // what it shows depends on who opened it
	Pipe    Kind = "pipe"
	Socket  Kind = "socket"
	Event   Kind = "eventfd"
	Poll    Kind = "epoll"
	Timer   Kind = "timerfd"
	Signals Kind = "signalfd"
	Memory  Kind = "memfd"
	Other   Kind = "other"
)

// Descriptor is one of a process.
type Descriptor struct {
	Number int
	Kind   Kind
	// Target is what the kernel calls it: a path, pipe:[123], anon_inode:[x].
	Target string
	// Flags are those of open, Position where it reads and writes next.
	Flags    int
	Position int64
	// Inode is that of a pipe or socket.
	Inode uint64
	// Object tells open files apart: it is the same for all descriptors, of
	// whatever process, that stand for one.
	Object int

	Count     uint64       // of an eventfd
	Semaphore bool         // an eventfd that counts down by ones
	Mask      uint64       // of a signalfd
	Clock     int          // of a timerfd
	Settings  int          // flags that a timerfd was set with
	Ticks     uint64       // how often a timerfd has ended and nobody has read it
	Value     [2]int64     // when a timerfd ends next, in seconds and nanoseconds
	Interval  [2]int64     // and how often
	Watches   []Watch      // of an epoll set
	Unread    []byte       // of a pipe: what was written and not read yet
	Capacity  int          // of a pipe
	Locks     []Lock       // that are held through it
	Socket    *SocketState `json:",omitempty"` // of a socket
	Content   *Content     `json:"-"`          // of memory, or of a file that was removed

	semaphoreTold bool // the kernel says whether an eventfd is one
}

// parseDescriptor reads what the kernel says of a descriptor: what it links to
// and what is in fdinfo.
func parseDescriptor(number int, target, info string) (Descriptor, error) {
	d := Descriptor{Number: number, Target: target, Kind: kindOf(target)}
	if _, rest, ok := strings.Cut(target, ":["); ok && (d.Kind == Pipe || d.Kind == Socket) {
		var err error
		if d.Inode, err = strconv.ParseUint(strings.TrimSuffix(rest, "]"), 10, 64); err != nil {
			return d, fmt.Errorf("checkpoint: a descriptor is %.80q", target)
		}
	}
	for line := range strings.SplitSeq(info, "\n") {
		if err := d.parseLine(line); err != nil {
			return d, fmt.Errorf("checkpoint: descriptor %d has %.80q", number, line)
		}
	}
	return d, nil
}

func kindOf(target string) Kind {
	switch {
	case strings.HasPrefix(target, "/memfd:"):
		return Memory
	case strings.HasPrefix(target, "/") && strings.HasSuffix(target, " (deleted)"):
		return Deleted
	case strings.HasPrefix(target, "/"):
		return File
	case strings.HasPrefix(target, "pipe:["):
		return Pipe
	case strings.HasPrefix(target, "socket:["):
		return Socket
	}
	switch target {
	case "anon_inode:[eventfd]":
		return Event
	case "anon_inode:[eventpoll]":
		return Poll
	case "anon_inode:[timerfd]":
		return Timer
	case "anon_inode:[signalfd]":
		return Signals
	}
	return Other
}

func (d *Descriptor) parseLine(line string) (err error) {
	name, value, ok := strings.Cut(line, ":")
	if !ok {
		return nil
	}
	value = strings.TrimSpace(value)
	number := func(base int) (n uint64) {
		if err == nil {
			n, err = strconv.ParseUint(value, base, 64)
		}
		return n
	}
	switch name {
	case "pos":
		d.Position = int64(number(10))
	case "flags":
		d.Flags = int(number(8))
	case "eventfd-count":
		d.Count = number(16)
	case "eventfd-semaphore":
		d.Semaphore, d.semaphoreTold = number(10) == 1, true
	case "sigmask":
		d.Mask = number(16)
	case "clockid":
		d.Clock = int(number(10))
	case "settime flags":
		d.Settings = int(number(8))
	case "ticks":
		d.Ticks = number(10)
	case "it_value":
		_, err = fmt.Sscanf(value, "(%d, %d)", &d.Value[0], &d.Value[1])
	case "it_interval":
		_, err = fmt.Sscanf(value, "(%d, %d)", &d.Interval[0], &d.Interval[1])
	case "tfd":
		err = d.parseWatch(value)
	case "lock":
		err = d.parseLock(value)
	}
	return err
}

// Watch is one descriptor that an epoll set watches.
type Watch struct {
	Number int
	Events uint32
	Data   uint64
}

// maxWatches bounds what is read of an epoll set.
const maxWatches = 1 << 16

// parseWatch reads "5 events: 19 data: 500000005  pos:0 ino:..".
func (d *Descriptor) parseWatch(value string) error {
	fields := strings.Fields(value)
	if len(fields) < 5 || fields[1] != "events:" || fields[3] != "data:" || len(d.Watches) == maxWatches {
		return strconv.ErrSyntax
	}
	number, err := strconv.ParseInt(fields[0], 10, 32)
	if err != nil {
		return err
	}
	events, err := strconv.ParseUint(fields[2], 16, 32)
	if err != nil {
		return err
	}
	data, err := strconv.ParseUint(fields[4], 16, 64)
	if err != nil {
		return err
	}
	d.Watches = append(d.Watches, Watch{int(number), uint32(events), data})
	return nil
}

// Lock is one on a file.
type Lock struct {
	// Owner is FLOCK, OFDLCK, POSIX or what else the kernel calls it.
	Owner string
	Write bool
	// StartScript and End are the first and last byte; End is -1 for all that follow.
	Start, End int64
}

// maxLocks bounds what is read of a file's.
const maxLocks = 4096

// parseLock reads "1: FLOCK  ADVISORY  WRITE 359 00:13:11691 0 EOF".
func (d *Descriptor) parseLock(value string) (err error) {
	fields := strings.Fields(value)
	if len(fields) != 8 || len(d.Locks) == maxLocks {
		return strconv.ErrSyntax
	}
	l := Lock{Owner: fields[1], Write: fields[3] == "WRITE", End: -1}
	if l.Start, err = strconv.ParseInt(fields[6], 10, 64); err != nil {
		return err
	}
	if fields[7] != "EOF" {
		if l.End, err = strconv.ParseInt(fields[7], 10, 64); err != nil {
			return err
		}
	}
	if fields[2] != "ADVISORY" || !l.Write && fields[3] != "READ" {
		l.Owner = strings.Join(fields[1:4], " ")
	}
	d.Locks = append(d.Locks, l)
	return nil
}

// joinedGroups says whether what the kernel calls igmp has groups that some
// socket has joined: others than that of all hosts.
func joinedGroups(igmp string) bool {
	const allHosts = "010000E0"
	for line := range strings.SplitSeq(igmp, "\n") {
		fields := strings.Fields(line)
		if strings.HasPrefix(line, "\t") && len(fields) > 0 && fields[0] != allHosts {
			return true
		}
	}
	return false
}

// joinedGroups6 does so for igmp6, where the kernel itself joins the groups of all
// nodes, and one for each address.
func joinedGroups6(igmp6 string) bool {
	const group, byAddress = 2, "ff0200000000000000000001ff"
	for line := range strings.SplitSeq(igmp6, "\n") {
		fields := strings.Fields(line)
		if len(fields) <= group || strings.HasPrefix(fields[group], byAddress) {
			continue
		}
		switch fields[group] {
		case "ff010000000000000000000000000001", "ff020000000000000000000000000001":
		default:
			return true
		}
	}
	return false
}

// aboutProcess says that a path in /proc is one of a process.
func aboutProcess(path string) bool {
	name, _, _ := strings.Cut(strings.TrimPrefix(path, "/proc/"), "/")
	_, err := strconv.Atoi(name)
	return err == nil
}
