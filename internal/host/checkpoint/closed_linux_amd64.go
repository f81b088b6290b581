package checkpoint

import (
	"encoding/binary"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// closed are the mappings that the process itself cannot read. What is in them is
// read through /proc/PID/mem, as debuggers do.
func (s *State) closed() (list []run) {
	for _, a := range s.vmas {
		if !a.Read && !kernelVMA(a) {
			list = append(list, run{a.Start, a.End})
		}
	}
	return list
}

// copyClosed appends the copying of pages that the process cannot read to a zygote.
func (b memorySteps) copyClosed(wanted []run) (done []transfer) {
	if len(wanted) == 0 {
		return nil
	}
	path := fmt.Sprintf("/proc/%d/mem", b.state.PID)
	b.Call(unix.SYS_OPENAT, here, b.String(path), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	for _, r := range pieces(wanted, maxTransfer) {
		place, mem := b.Bytes(16)
		binary.NativeEndian.PutUint64(mem, r.Start)
		binary.NativeEndian.PutUint64(mem[8:], r.size())
		step := b.Call(unix.SYS_PREADV, OpenFd, place, 1, uintptr(r.Start), 0)
		done = append(done, transfer{step, r.size()})
		b.state.copied += r.size()
	}
	b.Call(unix.SYS_CLOSE, OpenFd)
	return done
}

// readClosed reads memory that the process cannot read.
func (s *State) readClosed(address uint64, into []byte) error {
	memory, err := os.Open(fmt.Sprintf("/proc/%d/mem", s.PID))
	if err != nil {
		return err
	}
	defer memory.Close()
	_, err = memory.ReadAt(into, int64(address))
	return err
}
