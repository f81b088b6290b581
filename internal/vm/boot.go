package vm

import (
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"aether/internal/host/guestmem"
)

// PVH: the kernel is an ELF file with a note that says where it is entered, in 32-bit mode
// without paging, with a structure that says where everything is.

const (
	startInfo   = 0x6000
	startModule = 0x6100
	startMap    = 0x6200
	startWords  = 0x7000
	maxWords    = 0x1000

	lowEnd   = 0x9fc00  // of what is below the firmware's place
	midStart = 0x100000 // where memory goes on
	page     = 4096
)

var (
	errSmall = errors.New("vm: there is too little memory for the kernel")
	errEntry = errors.New("vm: the kernel has no entry for PVH")
)

// Image is a file that a machine boots from.
type Image interface {
	io.ReaderAt
	Size() int64
}

// load puts everything in place that a kernel needs, and gives where it is entered.
func load(m *guestmem.Memory, kernel, initramfs Image, words string, cpus, devices int) (entry uint64, err error) {
	if len(words) >= maxWords {
		return 0, fmt.Errorf("vm: a command line of %d bytes", len(words))
	}
	if entry, err = loadKernel(m, kernel); err != nil {
		return 0, err
	}
	module, err := loadModule(m, initramfs)
	if err != nil {
		return 0, err
	}
	acpi, err := writeACPI(m, cpus, devices)
	if err != nil {
		return 0, err
	}
	if err := renewGeneration(m); err != nil {
		return 0, err
	}
	ranges := memoryMap(m)
	const magic, version, modules = 0x336ec578, 1, 1
	return entry, write(m,
		piece{startWords, append([]byte(words), 0)},
		piece{startModule, module},
		piece{startMap, ranges},
		piece{startInfo, words32and64(magic, version, 0, modules, startModule, startWords, acpi, startMap, uint32(len(ranges)/24))})
}

type piece struct {
	address uint64
	content []byte
}

func write(m *guestmem.Memory, pieces ...piece) error {
	for _, p := range pieces {
		to, ok := m.Slice(p.address, uint64(len(p.content)))
		if !ok {
			return errSmall
		}
		copy(to, p.content)
	}
	return nil
}

// words32and64 is a start_info.
func words32and64(magic, version, flags, modules uint32, moduleList, words, acpi, ranges uint64, count uint32) []byte {
	le := binary.LittleEndian
	var b []byte
	for _, v := range []uint32{magic, version, flags, modules} {
		b = le.AppendUint32(b, v)
	}
	for _, v := range []uint64{moduleList, words, acpi, ranges} {
		b = le.AppendUint64(b, v)
	}
	return le.AppendUint32(le.AppendUint32(b, count), 0)
}

// memoryMap tells the kernel where memory is.
func memoryMap(m *guestmem.Memory) (b []byte) {
	const ram = 1
	add := func(start, size uint64) {
		b = binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(b, start), size)
		b = binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(b, ram), 0)
	}
	add(0, lowEnd)
	for _, r := range m.Ranges() {
		start, size := r.Start, uint64(len(r.Bytes))
		if start == 0 {
			start, size = midStart, size-midStart
		}
		add(start, size)
	}
	return b
}

// loadKernel puts the segments where they say.
func loadKernel(m *guestmem.Memory, kernel Image) (uint64, error) {
	f, err := elf.NewFile(kernel)
	if err != nil {
		return 0, fmt.Errorf("vm: the kernel: %w", err)
	}
	if f.Machine != elf.EM_X86_64 {
		return 0, fmt.Errorf("vm: the kernel is for %v", f.Machine)
	}
	for _, p := range f.Progs {
		if p.Type != elf.PT_LOAD {
			continue
		}
		to, ok := m.Slice(p.Paddr, p.Memsz)
		if !ok || p.Paddr < midStart || p.Filesz > p.Memsz {
			return 0, errSmall
		}
		if _, err := io.ReadFull(io.NewSectionReader(p, 0, int64(p.Filesz)), to[:p.Filesz]); err != nil {
			return 0, fmt.Errorf("vm: the kernel: %w", err)
		}
	}
	return entryOf(f)
}

// entryOf finds the note that says where the kernel is entered.
func entryOf(f *elf.File) (uint64, error) {
	const most = 64 << 10
	for _, p := range f.Progs {
		if p.Type != elf.PT_NOTE || p.Filesz > most {
			continue
		}
		notes := make([]byte, p.Filesz)
		if _, err := p.ReadAt(notes, 0); err != nil {
			return 0, fmt.Errorf("vm: the kernel: %w", err)
		}
		if entry := entryIn(notes); entry != 0 {
			return entry, nil
		}
	}
	return 0, errEntry
}

func entryIn(notes []byte) uint64 {
	const head, physicalEntry = 12, 18
	aligned := func(n uint32) uint64 { return (uint64(n) + 3) &^ 3 }
	for len(notes) >= head {
		le := binary.LittleEndian
		nameSize, size, kind := le.Uint32(notes), le.Uint32(notes[4:]), le.Uint32(notes[8:])
		data := head + aligned(nameSize)
		next := data + aligned(size)
		if next > uint64(len(notes)) {
			return 0
		}
		if kind == physicalEntry && size >= 4 && string(notes[head:head+uint64(nameSize)]) == "Xen\x00" {
			return uint64(le.Uint32(notes[data:]))
		}
		notes = notes[next:]
	}
	return 0
}

// loadModule puts the initramfs at the end of low memory, and describes it.
func loadModule(m *guestmem.Memory, initramfs Image) ([]byte, error) {
	low := m.Ranges()[0].Bytes
	size := initramfs.Size()
	if size < 0 || size > int64(len(low))/2 {
		return nil, errSmall
	}
	at := (uint64(len(low)) - uint64(size)) &^ (page - 1)
	if _, err := io.ReadFull(io.NewSectionReader(initramfs, 0, size), low[at:at+uint64(size)]); err != nil {
		return nil, fmt.Errorf("vm: the initramfs: %w", err)
	}
	b := binary.LittleEndian.AppendUint64(nil, at)
	return binary.LittleEndian.AppendUint64(b, uint64(size)), nil
}
