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

// A state is a file: a head, what the processors and devices are, and from memoryStart on
// the memory as it is, with holes where it is zero. So it is mapped, and read when the
// guest looks at it.

const (
	stateVersion = 1
	memoryStart  = 1 << 20
	devices      = 3
)

var stateMagic = [8]byte{'a', 'e', 't', 'h', 'e', 'r', 'v', 'm'}

// stateHead says what follows.
type stateHead struct {
	Magic         [8]byte
	Version, CPUs uint32
	Memory        int64
	// Features are those of the processor, as far as guests are told.
	Features kvm.Features
	Size     uint32
	Sum      [sha256.Size]byte
}

// sharedState is all but the processors.
type sharedState struct {
	VM      kvm.VMState
	Serial  serialState
	Devices [devices]virtio.State
}

// Save writes the state of a paused machine to a file.
func (m *Machine) Save(to *os.File) error {
	var shared sharedState
	var body bytes.Buffer
	if err := m.vm.Save(&shared.VM); err != nil {
		return err
	}
	shared.Serial = m.serial.s
	for n, t := range m.devices {
		shared.Devices[n] = t.Save()
	}
	shared.Devices[vsockDevice] = m.vsock.Save()
	if err := binary.Write(&body, binary.LittleEndian, &shared); err != nil {
		return err
	}
	for _, c := range m.cpus {
		var s kvm.CPUState
		if err := c.Save(&s); err != nil {
			return err
		}
		if err := binary.Write(&body, binary.LittleEndian, &s); err != nil {
			return err
		}
	}
	head := stateHead{Magic: stateMagic, Version: stateVersion, CPUs: uint32(len(m.cpus)), Memory: int64(len(m.memory.Bytes())),
		Features: m.system.Features(), Size: uint32(body.Len()), Sum: sha256.Sum256(body.Bytes())}
	var all bytes.Buffer
	if err := binary.Write(&all, binary.LittleEndian, &head); err != nil {
		return err
	}
	all.Write(body.Bytes())
	if all.Len() > memoryStart {
		return fmt.Errorf("vm: a state of %d bytes", all.Len())
	}
	if _, err := to.WriteAt(all.Bytes(), 0); err != nil {
		return err
	}
	return writeMemory(to, m.memory.Bytes())
}

// writeMemory leaves out what is zero.
func writeMemory(to *os.File, memory []byte) error {
	const step = 64 << 10
	if err := to.Truncate(memoryStart + int64(len(memory))); err != nil {
		return err
	}
	var zero [step]byte
	for at := 0; at < len(memory); at += step {
		part := memory[at:min(at+step, len(memory))]
		if bytes.Equal(part, zero[:len(part)]) {
			continue
		}
		if _, err := to.WriteAt(part, memoryStart+int64(at)); err != nil {
			return err
		}
	}
	return nil
}

// Saved is a state that was found to be whole and for this kind of machine.
type Saved struct {
	head stateHead
	body *bytes.Reader
	file *os.File
}

// Errors of states that are not used.
var (
	ErrState    = errors.New("vm: it is no state of a machine, or damaged")
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
	h := s.head
	want := binary.Size(sharedState{}) + int(min(h.CPUs, MaxCPUs))*binary.Size(kvm.CPUState{})
	if h.CPUs < 1 || h.CPUs > MaxCPUs || int64(h.Size) != int64(want) || h.Memory < midStart || h.Memory%page != 0 {
		return nil, ErrState
	}
	body := make([]byte, h.Size)
	if _, err := io.ReadFull(in, body); err != nil || sha256.Sum256(body) != h.Sum {
		return nil, ErrState
	}
	info, err := file.Stat()
	if err != nil || info.Size() != memoryStart+h.Memory {
		return nil, ErrState
	}
	s.body = bytes.NewReader(body)
	return s, nil
}

// CPUs is how many processors the machine had.
func (s *Saved) CPUs() int { return int(s.head.CPUs) }

// Map maps the memory. What is written to it is the mapping's own.
func (s *Saved) Map() (*guestmem.Mapping, error) {
	return guestmem.Map(s.file, memoryStart, s.head.Memory, true)
}

// Restore gives a machine, which was made with the memory of a state, the rest of it.
func (m *Machine) Restore(s *Saved) error {
	if s.CPUs() != len(m.cpus) || !m.system.Features().Has(s.head.Features) {
		return errFeatures
	}
	var shared sharedState
	if err := binary.Read(s.body, binary.LittleEndian, &shared); err != nil {
		return err
	}
	if err := m.vm.Restore(&shared.VM); err != nil {
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
		if err := binary.Read(s.body, binary.LittleEndian, &state); err != nil {
			return err
		}
		if err := c.Restore(&state); err != nil {
			return err
		}
	}
	return nil
}

// Again has the devices do what they were told before the state was saved, once the
// machine runs.
func (m *Machine) Again() {
	for _, t := range m.devices {
		t.Again()
	}
}
