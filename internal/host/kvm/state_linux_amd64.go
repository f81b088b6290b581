package kvm

import (
	"errors"
	"fmt"
	"slices"
	"unsafe"
)

// VMState is the state of a machine beside its memory and its processors.
type VMState struct {
	IRQChip [3][520]byte
	PIT     [112]byte
	Clock   [48]byte
}

// CPUState is the state of a processor.
type CPUState struct {
	MP     [4]byte
	Regs   [144]byte
	Sregs  [312]byte
	XSAVE  [4096]byte
	XCRS   [392]byte
	Debug  [128]byte
	LAPIC  [1024]byte
	Events [64]byte
	MSRs   int32
	MSR    [maxSavedMSRs]MSR
}

// Bytes are the state as it is kept, which is as it is in memory. Who changes them changes it.
func (s *VMState) Bytes() []byte { return unsafe.Slice((*byte)(unsafe.Pointer(s)), unsafe.Sizeof(*s)) }

// Bytes are the state as it is kept, which is as it is in memory: there is no room between its
// parts. Who changes them changes it.
func (s *CPUState) Bytes() []byte { return unsafe.Slice((*byte)(unsafe.Pointer(s)), unsafe.Sizeof(*s)) }

// MSR is a model-specific register.
type MSR struct {
	Index, _ uint32
	Value    uint64
}

const maxSavedMSRs = 512

type msrTable struct {
	count, _ uint32
	entries  [maxSavedMSRs]MSR
}

const (
	msrTSC         = 0x10
	msrTSCDeadline = 0x6e0
	msrClock       = 0x4b564d01
	msrClockOld    = 0x12
)

// order is that in which registers are written: the time first, the guest's clock, which
// is computed from it, late, and the timer that goes off by it last.
func order(indices []uint32) []uint32 {
	rank := func(index uint32) int {
		switch index {
		case msrTSC:
			return 0
		case msrClock, msrClockOld:
			return 2
		case msrTSCDeadline:
			return 3
		}
		return 1
	}
	list := slices.Clone(indices)
	if !slices.Contains(list, msrTSCDeadline) {
		list = append(list, msrTSCDeadline)
	}
	slices.SortStableFunc(list, func(a, b uint32) int { return rank(a) - rank(b) })
	return list
}

// request is one of many that fill or read a piece of a state.
type request struct {
	number uintptr
	at     unsafe.Pointer
}

func all(fd int, list []request) error {
	for _, r := range list {
		if _, err := ioctlAt(fd, r.number, r.at); err != nil {
			return err
		}
	}
	return nil
}

// Save reads the state of the machine, whose processors stand still.
func (v *VM) Save(s *VMState) error {
	for i := range s.IRQChip {
		s.IRQChip[i][0] = byte(i)
		if _, err := ioctlAt(v.fd, getIRQChip, unsafe.Pointer(&s.IRQChip[i])); err != nil {
			return err
		}
	}
	return all(v.fd, []request{{getPIT, unsafe.Pointer(&s.PIT)}, {getClock, unsafe.Pointer(&s.Clock)}})
}

// Restore gives a machine, which has its memory and its processors, a state.
func (v *VM) Restore(s *VMState) error {
	for i := range s.IRQChip {
		s.IRQChip[i][0] = byte(i) // whatever it says
		if _, err := ioctlAt(v.fd, setIRQChip, unsafe.Pointer(&s.IRQChip[i])); err != nil {
			return err
		}
	}
	clock := s.Clock
	clear(clock[8:]) // it goes on from where it stood: wall time is set inside
	return all(v.fd, []request{{setPIT, unsafe.Pointer(&s.PIT)}, {setClock, unsafe.Pointer(&clock)}})
}

// Save reads the state of a processor that stands still.
func (c *CPU) Save(s *CPUState) error {
	err := all(c.fd, []request{
		{getMPState, unsafe.Pointer(&s.MP)}, // first: it takes events in
		{getRegs, unsafe.Pointer(&s.Regs)}, {getSregs, unsafe.Pointer(&s.Sregs)}, {getXSAVE, unsafe.Pointer(&s.XSAVE)},
		{getXCRS, unsafe.Pointer(&s.XCRS)}, {getDebugRegs, unsafe.Pointer(&s.Debug)}, {getLAPIC, unsafe.Pointer(&s.LAPIC)},
	})
	if err != nil {
		return err
	}
	if err := c.saveMSRs(s); err != nil {
		return err
	}
	return all(c.fd, []request{{getEvents, unsafe.Pointer(&s.Events)}}) // last
}

// saveMSRs leaves out what the kernel lists and cannot read, once for all processors.
func (c *CPU) saveMSRs(s *CPUState) error {
	system := c.vm.system
	for {
		if len(system.msrs) > maxSavedMSRs {
			return fmt.Errorf("kvm: %d registers", len(system.msrs))
		}
		table := msrTable{count: uint32(len(system.msrs))}
		for i, index := range system.msrs {
			table.entries[i].Index = index
		}
		read, err := ioctlAt(c.fd, getMSRs, unsafe.Pointer(&table))
		if err != nil {
			return err
		}
		if read < len(system.msrs) {
			system.msrs = slices.Delete(slices.Clone(system.msrs), read, read+1)
			continue
		}
		s.MSRs, s.MSR = int32(read), table.entries
		mendDeadline(s.MSR[:read])
		return nil
	}
}

// mendDeadline has a timer go off at once that went off before the state was saved, and
// whose interrupt may not have been seen: it reads as zero, which would stop it.
func mendDeadline(list []MSR) {
	if n := len(list); n > 1 && list[0].Index == msrTSC && list[n-1].Index == msrTSCDeadline && list[n-1].Value == 0 {
		list[n-1].Value = list[0].Value
	}
}

var errMSRs = errors.New("kvm: the state has other registers than it says")

// Restore gives a processor a state, after its machine has one.
func (c *CPU) Restore(s *CPUState) error {
	err := all(c.fd, []request{
		{setMPState, unsafe.Pointer(&s.MP)}, {setRegs, unsafe.Pointer(&s.Regs)}, {setSregs, unsafe.Pointer(&s.Sregs)},
		{setXCRS, unsafe.Pointer(&s.XCRS)}, {setXSAVE, unsafe.Pointer(&s.XSAVE)}, {setDebugRegs, unsafe.Pointer(&s.Debug)},
		{setLAPIC, unsafe.Pointer(&s.LAPIC)}, // after Sregs, which say where it is
	})
	if err != nil {
		return err
	}
	if err := c.restoreMSRs(s); err != nil {
		return err
	}
	if err := all(c.fd, []request{{setEvents, unsafe.Pointer(&s.Events)}}); err != nil { // last
		return err
	}
	// The guest's watchdogs are told that it stood still, if it has a clock to be told by.
	_, _ = ioctl(c.fd, clockControl, 0)
	return nil
}

// restoreMSRs goes over registers that were read and cannot be written: they are the
// processor's own.
func (c *CPU) restoreMSRs(s *CPUState) error {
	if s.MSRs < 0 || s.MSRs > maxSavedMSRs {
		return errMSRs
	}
	for rest := s.MSR[:s.MSRs]; len(rest) > 0; {
		table := msrTable{count: uint32(len(rest))}
		copy(table.entries[:], rest)
		written, err := ioctlAt(c.fd, setMSRs, unsafe.Pointer(&table))
		if err != nil {
			return err
		}
		rest = rest[min(written+1, len(rest)):]
	}
	return nil
}
