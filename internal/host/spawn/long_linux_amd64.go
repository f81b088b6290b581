package spawn

import (
	"encoding/binary"
	"fmt"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// maxLong bounds the steps of a long script.
const maxLong = 1 << 16

// NewLongScript makes an empty script with room for so many steps and about size
// bytes of arguments, both more than NewScript gives.
func NewLongScript(steps, size int) (*Script, error) {
	// One step more than usual, so that Free tells it from those of the pool.
	steps, size = max(steps, maxSteps+1), max(size, defaultArena)
	if steps > maxLong || size > maxArena {
		return nil, fmt.Errorf("spawn: a script of %d steps and %d bytes is too long: %w", steps, size, unix.E2BIG)
	}
	memory, err := unix.Mmap(-1, 0, controlSize+steps*stepSize+size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return nil, fmt.Errorf("spawn: map a script: %w", err)
	}
	s := &Script{memory: memory, most: steps}
	s.reset()
	s.leaveTable()
	return s, nil
}

// Branched is the number here of the process that a Branch made, or 0 if it has
// not come to that. It may be asked while both walk the script.
func (s Started) Branched() int { return int(atomic.LoadInt32(&s.script.control().branchPid)) }

// Int64 puts a number into the script and gives its address.
func (s *Script) Int64(n int64) uintptr {
	address, mem := s.Bytes(8)
	binary.NativeEndian.PutUint64(mem, uint64(n))
	return address
}
