package checkpoint

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Tracker notices which pages of a process are written, so that a second copy of
// its memory needs to be of those only. It is a userfaultfd of the process that
// only this program holds: the kernel notes writes by itself (asynchronous
// write protection, 6.7 and later), the process goes on without noticing. Kernels
// before that may note writes for everybody (soft-dirty pages): then there is no
// file.
type Tracker struct{ file *os.File }

// Interface of userfaultfd.
const (
	uffdUserMode   = 1
	uffdAPI        = 0xc018aa3f
	uffdRegister   = 0xc020aa00
	uffdProtect    = 0xc018aa06
	uffdVersion    = 0xaa
	uffdAsync      = 1 << 15 // UFFD_FEATURE_WP_ASYNC
	uffdUnmapped   = 1 << 13 // UFFD_FEATURE_WP_UNPOPULATED
	uffdModeTrack  = 1 << 1  // UFFDIO_REGISTER_MODE_WP
	uffdModeNotice = 1       // UFFDIO_WRITEPROTECT_MODE_WP
)

// Track makes a tracker for the process, whose memory is as the mappings say. It
// takes root.
func (s *State) Track() (*Tracker, error) {
	t, err := s.trackOwn()
	if errors.Is(err, unix.EINVAL) && softDirty() {
		return &Tracker{}, nil
	}
	return t, err
}

// trackOwn makes a userfaultfd in the name of the process, whose filter forbids
// the call.
func (s *State) trackOwn() (*Tracker, error) {
	t := &Tracker{}
	leader := s.threads[0]
	if err := leader.SuspendFilters(true); err != nil {
		return nil, fmt.Errorf("checkpoint: track: %w", err)
	}
	number, err := leader.Call(&leader.Regs, s.syscallAt, unix.SYS_USERFAULTFD, unix.O_CLOEXEC|unix.O_NONBLOCK|uffdUserMode)
	if err == nil && number < 0 {
		err = syscall.Errno(-number)
	}
	if err == nil {
		t.file, err = s.get(int(number))
		if _, closed := leader.Call(&leader.Regs, s.syscallAt, unix.SYS_CLOSE, uint64(number)); err == nil {
			err = closed
		}
	}
	if restored := leader.SuspendFilters(false); err == nil {
		err = restored
	}
	if err == nil {
		request := [3]uint64{uffdVersion, uffdAsync | uffdUnmapped, 0}
		err = t.ioctl(uffdAPI, unsafe.Pointer(&request))
	}
	if err != nil {
		t.Close()
		return nil, fmt.Errorf("checkpoint: track: %w", err)
	}
	return t, nil
}

func (t *Tracker) ioctl(request uintptr, arg unsafe.Pointer) error {
	_, _, errno := syscall.Syscall(unix.SYS_IOCTL, t.file.Fd(), request, uintptr(arg))
	if errno != 0 {
		return errno
	}
	return nil
}

// Watch begins to notice writes to the mappings of the state, unless they are those of
// before and still watched: a mapping that is not shows by its pages.
func (t *Tracker) Watch(s *State) error {
	if t.file == nil {
		err := clearSoftDirty(s.PID)
		s.watched = err == nil
		return err
	}
	if !s.unchanged || !s.found.again || s.found.untracked {
		if err := t.register(s); err != nil {
			return err
		}
	}
	if err := t.protect(s); err != nil {
		return err
	}
	s.watched = true
	return nil
}

func (t *Tracker) register(s *State) error {
	for _, r := range privateRanges(s.asRead.vmas, s.asRead.shared) {
		request := [4]uint64{r.Start, r.size(), uffdModeTrack, 0}
		if err := t.ioctl(uffdRegister, unsafe.Pointer(&request)); err != nil {
			return fmt.Errorf("checkpoint: track %x-%x: %w", r.Start, r.End, err)
		}
	}
	return nil
}

// protect protects the pages that are not: all, the first time.
func (t *Tracker) protect(s *State) error {
	const few = 64
	if !s.found.again || len(s.found.fresh) > few {
		return protectPages(s.PID, s.asRead.vmas)
	}
	for _, r := range s.found.fresh {
		request := [3]uint64{r.Start, r.size(), uffdModeNotice}
		if err := t.ioctl(uffdProtect, unsafe.Pointer(&request)); err != nil {
			return fmt.Errorf("checkpoint: track %x-%x: %w", r.Start, r.End, err)
		}
	}
	return nil
}

// privateRanges are the fewest ranges that hold all mappings but those of the kernel
// and those that are shared: one call each is enough.
func privateRanges(areas, shared []VMA) (list []run) {
	open := false
	for _, a := range areas {
		for len(shared) > 0 && shared[0].Start < a.Start {
			shared, open = shared[1:], false
		}
		if kernelVMA(a) {
			open = false
			continue
		}
		if open {
			list[len(list)-1].End = a.End
		} else {
			list, open = append(list, run{a.Start, a.End}), true
		}
	}
	return list
}

// Close ends the tracking.
func (t *Tracker) Close() error {
	if t == nil || t.file == nil {
		return nil
	}
	return t.file.Close()
}
