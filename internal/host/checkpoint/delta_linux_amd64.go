package checkpoint

import (
	"os"

	"golang.org/x/sys/unix"
)

// Delta is what a process has become since an earlier state: other contents of
// some pages, and nothing else.
type Delta struct {
	runs  []run
	bytes []byte
}

// Delta reads what has changed since a state, while the process is stopped. It is
// nil if more has than a delta holds.
func (s *State) Delta(was *State) (*Delta, error) {
	const few = 256
	changed := union(s.written, minus(s.own, was.own))
	switch {
	case !was.watched || !s.unchanged || s.Brk != was.Brk || s.Membarriers != was.Membarriers:
		return nil, nil
	case pages(changed) > few || len(minus(was.own, s.own)) > 0 || len(minus(changed, s.open())) > 0:
		return nil, nil
	}
	d := &Delta{changed, make([]byte, pages(changed)*pageSize)}
	s.copied += uint64(len(d.bytes))
	return d, d.transfer(s.PID, unix.ProcessVMReadv)
}

// open are the mappings that can be read and written, also by others.
func (s *State) open() (list []run) {
	for _, a := range s.vmas {
		if a.Read && a.Write {
			list = append(list, run{a.Start, a.End})
		}
	}
	return list
}

// Apply changes the memory of a process that has that of the earlier state.
func (d *Delta) Apply(pid int) error { return d.transfer(pid, unix.ProcessVMWritev) }

func (d *Delta) transfer(pid int, call func(int, []unix.Iovec, []unix.RemoteIovec, uint) (int, error)) error {
	if len(d.bytes) == 0 {
		return nil
	}
	remote := make([]unix.RemoteIovec, len(d.runs))
	for i, r := range d.runs {
		remote[i] = unix.RemoteIovec{Base: uintptr(r.Start), Len: int(r.size())}
	}
	n, err := call(pid, []unix.Iovec{{Base: &d.bytes[0], Len: uint64(len(d.bytes))}}, remote, 0)
	if err == nil && n != len(d.bytes) {
		err = errShort
	}
	return os.NewSyscallError("process_vm", err)
}
