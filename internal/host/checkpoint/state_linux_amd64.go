package checkpoint

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"aether/internal/host/confine"
	"aether/internal/host/ptrace"

	"golang.org/x/sys/unix"
)

// userEnd is where a process's own addresses end.
const userEnd = 1<<47 - pageSize

// State is everything that a stopped process is, but its descriptors and files.
type State struct {
	*Tracee
	attributes
	threads []*thread // also when the process has gone on

	mappings            // as children have them
	asRead    mappings  // as the process has them
	outline   outline   // what tells the mappings from others
	unchanged bool      // all mappings are those of the state before
	layer     *layerMap // what the cell has written to files
	writes    bool      // some of which the process maps

	parasiteAt   uint64 // the page that the parasite was put to, or 0
	parasitePage []byte // and what is there otherwise

	found   foundPages
	watched bool  // a tracker has protected all of them
	own     []run // those that children have too
	written []run // of them, since a tracker noticed last
	copied  uint64
}

// attributes are what the kernel keeps of a process besides its threads, memory and
// files.
type attributes struct {
	Brk         uint64                  `json:"brk"`
	Layout      [11]uint64              `json:"layout"` // as struct prctl_mm_map has them
	Auxv        []byte                  `json:"auxv"`
	Umask       uint64                  `json:"umask"`
	Personality uint64                  `json:"personality"`
	Limits      [unixLimits]unix.Rlimit `json:"limits"`
	Subreaper   bool                    `json:"subreaper,omitempty"`
	Undumpable  bool                    `json:"undumpable,omitempty"`
	Membarriers int64                   `json:"membarriers,omitempty"` // commands that it has registered for
	Stopped     bool                    `json:"stopped,omitempty"`     // by a signal, until it is continued
	Actions     map[int][32]byte        `json:"actions,omitempty"`     // for signals, as struct sigaction has them
	Intervals   [3][32]byte             `json:"intervals"`             // as struct itimerval has them
	PosixTimers []posixTimer            `json:"posix_timers,omitempty"`
	// Queued are the signals that wait for the process, not for one thread.
	Queued []ptrace.SignalInfo `json:"queued,omitempty"`
}

const unixLimits = 16 // RLIM_NLIMITS

// ReadOptions say how the state of a process is read.
type ReadOptions struct {
	// Filters is how many system call filters the process is under if it has
	// added none.
	Filters int
	// Last is the state that was read before, or nil.
	Last *State
	// Paths says that files in its memory will be opened by their paths: then these
	// must be right also where nothing else has changed.
	Paths bool
	// Writes are the files that the cell has written.
	Writes *confine.WriteSource
	// Meanwhile runs while the parasite does, Done when the process has nothing to do any
	// more until it is resumed.
	Meanwhile func() error
	Done      func()
}

// ReadState reads the state of the process, which stays stopped.
func (p *Tracee) ReadState(how ReadOptions) (*State, error) {
	s, was := &State{Tracee: p, threads: p.threads, layer: newLayerMap(how.Writes)}, how.Last
	for _, step := range []func() error{
		func() error { return s.readVMAs(was, how.Paths || byPath()) },
		func() error { return s.check(how.Filters) },
		s.readTimers,
		func() error {
			return s.runParasite(func() error {
				return errors.Join(s.readLayout(was), s.readLimits(), s.readScheduling(), how.Meanwhile())
			})
		},
		func() error { how.Done(); return nil },
		func() error { return s.readPages(was) },
	} {
		err := step()
		if errors.Is(err, ptrace.ErrDisturbed) {
			return nil, s.refuse(true, "was sent a signal while it was read")
		}
		if err != nil {
			return nil, err
		}
	}
	return s, nil
}

// readPages finds the pages that are to be copied, all in mappings of the process's
// own. Pages that are to be empty in children are left out.
func (s *State) readPages(was *State) (err error) {
	var before *foundPages
	if was != nil && was.watched {
		before = &was.found
	}
	if s.found, err = findPages(s.PID, s.asRead.vmas, before); err != nil {
		return err
	}
	if err := s.placeFiles(was); err != nil {
		return err
	}
	if code := []run{{s.parasiteAt, s.parasiteAt + pageSize}}; s.sameParasitePage(was) && len(both(was.own, code)) > 0 {
		s.written = minus(s.written, code)
	}
	return nil
}

// Copied is how much memory was copied from the process.
func (s *State) Copied() uint64 { return s.copied }

// check refuses what could not be carried over.
func (s *State) check(filters int) error {
	switch state, _, _ := strings.Cut(s.status.field("State"), " "); state {
	case "Z", "X":
		return s.refuse(true, "has ended")
	}
	if n, err := s.status.number("Seccomp_filters", 10); err != nil || int(n) > filters {
		return s.refuse(false, "has added system call filters of its own (%s)", s.status.field("Seccomp_filters"))
	}
	for _, t := range s.threads {
		s.Stopped = s.Stopped || t.Stopped
		if t.Signal != 0 {
			return s.refuse(true, "is being sent signal %d", t.Signal)
		}
		dispatched, err := t.UserDispatch()
		if err != nil {
			return err
		}
		if dispatched {
			return s.refuse(false, "has its system calls dispatched to itself (PR_SET_SYSCALL_USER_DISPATCH)")
		}
	}
	if s.unchanged {
		return nil
	}
	for _, a := range slices.Concat(s.vmas, s.shared) {
		if err := s.checkVMA(a); err != nil {
			return err
		}
	}
	return nil
}

func (s *State) checkVMA(a VMA) error {
	switch {
	case kernelVMA(a):
		return nil
	case strings.HasPrefix(a.Name, "/[aio]"):
		return s.refuse(false, "has asynchronous I/O set up (io_setup)")
	case a.Name == "anon_inode:[io_uring]":
		return s.refuse(false, "has an io_uring")
	case a.has("ht"):
		return s.refuse(false, "uses huge pages of hugetlbfs at %x", a.Start)
	case a.has("pf"), a.has("io"):
		return s.refuse(false, "maps a device at %x", a.Start)
	case a.has("um"), a.has("ui"): // not "uw": a Tracker
		return s.refuse(false, "has a userfaultfd at %x", a.Start)
	case a.has("ss"):
		return s.refuse(false, "has a shadow stack")
	}
	return nil
}

// readLayout reads where the program's parts are.
func (s *State) readLayout(was *State) (err error) {
	if s.Auxv, err = readProc(fmt.Sprintf("/proc/%d/auxv", s.PID)); err != nil {
		return err
	}
	if was != nil {
		// It takes privileges, or another program, to change.
		if !bytes.Equal(s.Auxv, was.Auxv) {
			return ErrOther
		}
		s.Layout = was.Layout
		return s.readAttributes()
	}
	text, err := readProc(fmt.Sprintf("/proc/%d/stat", s.PID))
	if err != nil {
		return err
	}
	// The name, in parentheses, may hold anything.
	after := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	const first = 3 // the number of the field that is after[0]
	for i, field := range []int{26, 27, 45, 46, 47, 0, 28, 48, 49, 50, 51} {
		if field == 0 {
			continue // brk: the parasite reads it
		}
		if field-first >= len(after) {
			return fmt.Errorf("checkpoint: stat has %d fields", len(after))
		}
		if s.Layout[i], err = strconv.ParseUint(after[field-first], 10, 64); err != nil {
			return err
		}
	}
	return s.readAttributes()
}

// ErrOther is the failure to go on from a state of a process that has executed
// another program since.
var ErrOther = errors.New("checkpoint: the process runs another program than before")

// readAttributes reads what a process may change of itself at any time.
func (s *State) readAttributes() error {
	personality, err := readProc(fmt.Sprintf("/proc/%d/personality", s.PID))
	if err != nil {
		return err
	}
	if s.Personality, err = strconv.ParseUint(strings.TrimSpace(string(personality)), 16, 64); err != nil {
		return err
	}
	s.Umask, err = s.status.number("Umask", 8)
	return err
}

// FreeAddress finds room for so many bytes where a process has nothing, and
// where its zygote will have nothing either. The process may be running.
func FreeAddress(pid int, size uint64) (uint64, error) {
	f, err := os.Open(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return 0, err
	}
	defer f.Close()
	areas, err := parseMaps(f)
	if err != nil {
		return 0, err
	}
	return findGap(areas, size)
}

// FreeAddress finds room for so many bytes where none of the processes has anything.
func (c *Checkpoint) FreeAddress(size uint64) (uint64, error) {
	var all []VMA
	for _, p := range c.Processes {
		all = append(all, p.State.vmas...)
		for _, m := range p.Mappings {
			all = append(all, VMA{Start: m.Start, End: m.Start + m.Size})
		}
	}
	slices.SortFunc(all, func(a, b VMA) int { return cmp.Compare(a.Start, b.Start) })
	return findGap(all, size)
}

// findGap finds room in the middle of the addresses, far from where programs, their
// heaps, libraries and stacks are put.
func findGap(areas []VMA, size uint64) (uint64, error) {
	const margin = 1 << 30
	at := uint64(1 << 44)
	for _, a := range areas {
		if a.End <= at {
			continue
		}
		if a.Start >= at+size+margin {
			break
		}
		at = (a.End + margin) &^ (margin - 1)
	}
	if at+size+margin > userEnd {
		return 0, fmt.Errorf("checkpoint: no room of %d bytes among the addresses", size)
	}
	return at, nil
}
