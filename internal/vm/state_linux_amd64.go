package vm

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"

	"aether/internal/host/guestmem"
	"aether/internal/host/kvm"
	"aether/internal/vm/virtio"
)

// A state is a file: a head, what the processors and devices are, and where the memory is:
// in the same file from memoryStart on, as it is, with holes where it is zero; or in files
// that are handed on beside it; or in both. So it is mapped, and read when the guest looks at it.

const (
	stateVersion = 4
	memoryStart  = 1 << 20
	maxDevices   = 4
	// maxExtents bounds what is read of a state that anybody may have made.
	maxExtents = 1 << 16
)

var stateMagic = [8]byte{'a', 'e', 't', 'h', 'e', 'r', 'v', 'm'}

// stateHead says what follows.
type stateHead struct {
	Magic         [8]byte
	Version, CPUs uint32
	Memory        int64
	Devices       uint32
	// Features are those of the processor, as far as guests are told.
	Features kvm.Features
	// Size is of the processors and devices. Extents say where the memory is; none, that it
	// is in this file. Each of Sums is a checksum of a part of what of it is in this file; none,
	// that none of it is.
	Size, Extents, Sums uint32
	// Sum is of all of this but itself, and of what follows before the memory.
	Sum [sha256.Size]byte
}

// checksum is what Sum is to be.
func (h stateHead) checksum(rest []byte) (sum [sha256.Size]byte, err error) {
	h.Sum = [sha256.Size]byte{}
	hash := sha256.New()
	if err := binary.Write(hash, binary.LittleEndian, &h); err != nil {
		return sum, err
	}
	hash.Write(rest)
	hash.Sum(sum[:0])
	return sum, nil
}

// sharedState is all but the processors, after a kvm.VMState.
type sharedState struct {
	Serial  serialState
	Devices [maxDevices]virtio.State
}

// hardwareSize is of a machine with so many processors.
func hardwareSize(cpus int) int {
	return len(new(kvm.VMState).Bytes()) + binary.Size(sharedState{}) + cpus*len(new(kvm.CPUState).Bytes())
}

// Save writes the state of a paused machine to a file, with the runs of its memory that are
// named: nothing is in the rest, or it is where extents say, in a file that is handed on beside
// the state.
func (m *Machine) Save(to *os.File, runs, extents []guestmem.Extent) error {
	if err := to.Truncate(memoryStart + int64(len(m.memory.Bytes()))); err != nil {
		return err
	}
	sums, err := writeMemory(to, m.memory.Bytes(), runs)
	if err != nil {
		return err
	}
	return m.saveAround(to, extents, sums)
}

// SaveBeside writes the state of a paused machine whose memory is in files that are
// handed on.
func (m *Machine) SaveBeside(to *os.File, extents []guestmem.Extent) error {
	return m.saveAround(to, extents, nil)
}

// saveAround writes all but the memory.
func (m *Machine) saveAround(to *os.File, extents []guestmem.Extent, sums []uint32) error {
	head := stateHead{Magic: stateMagic, Version: stateVersion, CPUs: uint32(len(m.cpus)), Memory: int64(len(m.memory.Bytes())), Devices: uint32(len(m.devices)),
		Features: m.system.Features(), Extents: uint32(len(extents)), Sums: uint32(len(sums))}
	var rest bytes.Buffer
	if err := m.saveHardware(&rest); err != nil {
		return err
	}
	head.Size = uint32(rest.Len())
	for _, e := range extents {
		rest.Write(e.Append(rest.AvailableBuffer()))
	}
	if err := binary.Write(&rest, binary.LittleEndian, sums); err != nil {
		return err
	}
	var err error
	if head.Sum, err = head.checksum(rest.Bytes()); err != nil {
		return err
	}
	var all bytes.Buffer
	if err := binary.Write(&all, binary.LittleEndian, &head); err != nil {
		return err
	}
	all.Write(rest.Bytes())
	if all.Len() > memoryStart {
		return fmt.Errorf("vm: a state of %d bytes", all.Len())
	}
	_, err = to.WriteAt(all.Bytes(), 0)
	return err
}

// saveHardware writes what processors and devices are.
func (m *Machine) saveHardware(to io.Writer) error {
	var machine kvm.VMState
	if err := m.vm.Save(&machine); err != nil {
		return err
	}
	if _, err := to.Write(machine.Bytes()); err != nil {
		return err
	}
	shared := sharedState{Serial: m.serial.s}
	for n, t := range m.devices {
		shared.Devices[n] = t.Save()
	}
	shared.Devices[vsockDevice] = m.vsock.Save()
	if err := binary.Write(to, binary.LittleEndian, &shared); err != nil {
		return err
	}
	for _, c := range m.cpus {
		var s kvm.CPUState
		if err := c.Save(&s); err != nil {
			return err
		}
		if _, err := to.Write(s.Bytes()); err != nil {
			return err
		}
	}
	return nil
}

// Saved is a state that was found to be whole and for this kind of machine.
type Saved struct {
	head    stateHead
	body    *bytes.Reader
	extents []guestmem.Extent
	sums    []uint32
	file    *os.File
}

// Errors of states that are not used.
var (
	ErrState    = errors.New("vm: it is no state of a machine, or damaged")
	errMemory   = errors.New("vm: the memory of the state is damaged")
	errVersion  = errors.New("vm: the state is of another version")
	errFeatures = errors.New("vm: the state is of a processor with features that this one has not")
)

// Open looks at a state, which anybody may have made.
func Open(file *os.File) (*Saved, error) {
	s := &Saved{file: file}
	in := io.NewSectionReader(file, 0, memoryStart)
	if err := binary.Read(in, binary.LittleEndian, &s.head); err != nil || s.head.Magic != stateMagic {
		return nil, ErrState
	}
	if s.head.Version != stateVersion {
		return nil, errVersion
	}
	if !s.head.sensible() {
		return nil, ErrState
	}
	h := s.head
	s.extents, s.sums = make([]guestmem.Extent, h.Extents), make([]uint32, h.Sums)
	rest := make([]byte, int(h.Size)+len(s.extents)*guestmem.ExtentSize+binary.Size(s.sums))
	if _, err := io.ReadFull(in, rest); err != nil {
		return nil, ErrState
	}
	if sum, err := h.checksum(rest); err != nil || sum != h.Sum {
		return nil, ErrState
	}
	s.body = bytes.NewReader(rest[:h.Size])
	after := rest[h.Size:]
	for n := range s.extents {
		after = s.extents[n].Take(after)
	}
	if err := binary.Read(bytes.NewReader(after), binary.LittleEndian, s.sums); err != nil {
		return nil, ErrState
	}
	if info, err := file.Stat(); err != nil || h.Sums > 0 && info.Size() != memoryStart+h.Memory {
		return nil, ErrState
	}
	return s, nil
}

// sensible says whether there can be a state with such a head.
func (h stateHead) sensible() bool {
	if h.CPUs < 1 || h.CPUs > MaxCPUs || h.Memory < midStart || h.Memory%page != 0 || h.Extents > maxExtents || h.Devices > maxDevices {
		return false
	}
	if int64(h.Size) != int64(hardwareSize(int(h.CPUs))) {
		return false
	}
	return int64(h.Sums) == parts(h.Memory) || h.Sums == 0 && h.Extents > 0
}

// CPUs is how many processors the machine had.
func (s *Saved) CPUs() int { return int(s.head.CPUs) }

// Map maps the memory, out of the files that were handed on beside the state, which become
// the mapping's, or were lent. What is written to it is the mapping's own. Errors: ErrState.
func (s *Saved) Map(files []*os.File, lent bool) (*guestmem.Layers, error) {
	if (len(s.extents) > 0) != (len(files) > 0) || lent && len(s.sums) == 0 {
		return nil, ErrState
	}
	if len(s.sums) == 0 {
		return guestmem.Join(files, s.extents, s.head.Memory)
	}
	if len(files) > 1 {
		return nil, ErrState
	}
	if err := checkMemory(s.file, s.head.Memory, s.sums); err != nil {
		return nil, err
	}
	if len(files) == 1 {
		return guestmem.BorrowOver(files[0], s.file, lent, s.extents, memoryStart, s.head.Memory)
	}
	return guestmem.Borrow(s.file, memoryStart, s.head.Memory)
}

// errDevices is that a machine was made with others than the one that was saved.
var errDevices = errors.New("vm: the state is of a machine with other devices")

// Restore gives a machine, which was made with the memory of a state, the rest of it, and a
// generation of its own.
func (m *Machine) Restore(s *Saved) error {
	if s.CPUs() != len(m.cpus) || !m.system.Features().Has(s.head.Features) {
		return errFeatures
	}
	if int(s.head.Devices) != len(m.devices) {
		return errDevices
	}
	if err := renewGeneration(m.memory); err != nil {
		return err
	}
	var machine kvm.VMState
	if _, err := io.ReadFull(s.body, machine.Bytes()); err != nil {
		return err
	}
	var shared sharedState
	if err := binary.Read(s.body, binary.LittleEndian, &shared); err != nil {
		return err
	}
	if err := m.vm.Restore(&machine); err != nil {
		return err
	}
	m.serial.s = shared.Serial
	for n, t := range m.devices {
		restore := t.Restore
		if n == vsockDevice {
			restore = m.vsock.Restore
		}
		if err := restore(shared.Devices[n]); err != nil {
			return err
		}
	}
	for _, c := range m.cpus {
		var state kvm.CPUState
		if _, err := io.ReadFull(s.body, state.Bytes()); err != nil {
			return err
		}
		if err := c.Restore(&state); err != nil {
			return err
		}
	}
	return m.events.Raise() // of the generation, before anything else happens in it
}

// Again has the devices do what they were told before the state was saved, once the
// machine runs.
func (m *Machine) Again() {
	for _, t := range m.devices {
		t.Again()
	}
}
