package vmtest

import "encoding/binary"

// Places in the memory of a guest, which has at least 4 MiB.
const (
	// KernelAt is where its code is.
	KernelAt = 0x200000
	// countersAt is where loops count, and devicesAt where its devices have their queues.
	countersAt = 0x308000
	devicesAt  = 0x310000
)

// Code is what a guest does: 32-bit instructions, with neither paging nor a stack nor
// interrupts.
type Code struct {
	text     []byte
	counters uint32
}

// Raw adds instructions as they are.
func (c *Code) Raw(text ...byte) { c.text = append(c.text, text...) }

func (c *Code) words(values ...uint32) {
	for _, v := range values {
		c.text = binary.LittleEndian.AppendUint32(c.text, v)
	}
}

// Store writes four bytes, Store16 two, Store8 one.
func (c *Code) Store(address, value uint32) {
	c.Raw(0xc7, 0x05)
	c.words(address, value)
}

// Store16 writes two bytes.
func (c *Code) Store16(address uint32, value uint16) {
	c.Raw(0x66, 0xc7, 0x05)
	c.words(address)
	c.Raw(byte(value), byte(value>>8))
}

// Store8 writes one byte.
func (c *Code) Store8(address uint32, value byte) {
	c.Raw(0xc6, 0x05)
	c.words(address)
	c.Raw(value)
}

// Copy copies four bytes.
func (c *Code) Copy(to, from uint32) {
	c.Raw(0xa1) // mov eax, [from]
	c.words(from)
	c.Raw(0xa3) // mov [to], eax
	c.words(to)
}

// Add adds to four bytes.
func (c *Code) Add(address, value uint32) {
	c.Raw(0x81, 0x05)
	c.words(address, value)
}

// compare loads four bytes and compares those of a mask.
func (c *Code) compare(address, mask, value uint32) {
	c.Raw(0xa1) // mov eax, [address]
	c.words(address)
	c.Raw(0x25) // and eax, mask
	c.words(mask)
	c.Raw(0x3d) // cmp eax, value
	c.words(value)
}

// back jumps to what was written before, by an instruction whose distance has four bytes.
func (c *Code) back(to int, jump ...byte) {
	c.Raw(jump...)
	c.words(uint32(to - len(c.text) - 4))
}

// Await waits until bits of four bytes have a value.
func (c *Code) Await(address, mask, value uint32) {
	start := len(c.text)
	c.compare(address, mask, value)
	c.back(start, 0x0f, 0x85) // jne
}

// Want wants bits of four bytes to have a value now; else the guest says what is the matter
// and switches itself off.
func (c *Code) Want(address, mask, value uint32, matter string) {
	c.compare(address, mask, value)
	var other Code
	other.Print(matter + "\n")
	other.Off()
	c.Raw(0x0f, 0x84) // je
	c.words(uint32(len(other.text)))
	c.Raw(other.text...)
}

// Loop does something many times; not once more is for ever.
func (c *Code) Loop(times uint32, body func()) {
	counter := countersAt + 4*c.counters
	c.counters++
	c.Store(counter, times)
	start := len(c.text)
	body()
	if times == 0 {
		c.back(start, 0xe9) // jmp
		return
	}
	c.Raw(0xff, 0x0d) // dec dword [counter]
	c.words(counter)
	c.back(start, 0x0f, 0x85) // jnz
}

// Print says something on the console.
func (c *Code) Print(text string) {
	c.Raw(0x66, 0xba, 0xf8, 0x03) // mov dx, 0x3f8
	for _, b := range []byte(text) {
		c.Raw(0xb0, b, 0xee) // mov al, b; out dx, al
	}
}

// Off switches the machine off.
func (c *Code) Off() { c.Raw(0x66, 0xba, 0x00, 0x06, 0xb0, 5<<2|1<<5, 0xee, 0xf4) }

// TripleFault has the processor find no handler, nor one for that.
func (c *Code) TripleFault() { c.Raw(0x0f, 0x01, 0x1d, 0, 0, 0x30, 0, 0xcc) } // lidt of zeros; int3

// Spin does nothing, for ever.
func (c *Code) Spin() { c.Raw(0xfa, 0xeb, 0xfe) } // cli; jmp self

// Halt waits for an interrupt that never comes.
func (c *Code) Halt() { c.Raw(0xfa, 0xf4, 0xeb, 0xfd) }

// Jump goes on at an address, whatever is there.
func (c *Code) Jump(address uint32) {
	c.Raw(0xb8) // mov eax, address
	c.words(address)
	c.Raw(0xff, 0xe0) // jmp eax
}

// Kernel is the file that a monitor boots.
func (c *Code) Kernel() []byte { return Kernel(c.text) }

// Kernel is a file that a monitor boots: for ELF, with one segment and the note of PVH.
func Kernel(code []byte) []byte {
	le := binary.LittleEndian
	var note []byte
	for _, v := range []uint32{4, 4, 18} {
		note = le.AppendUint32(note, v)
	}
	note = le.AppendUint32(append(note, "Xen\x00"...), KernelAt)
	const head, entry, page = 64, 56, 4096
	notesAt := uint64(head + 2*entry)
	codeAt := notesAt + uint64(len(note))
	b := []byte{0x7f, 'E', 'L', 'F', 2, 1, 1, 15: 0}
	b = le.AppendUint32(b, 62<<16|2) // an executable for x86-64
	b = le.AppendUint32(b, 1)
	for _, v := range []uint64{KernelAt, head, 0} {
		b = le.AppendUint64(b, v)
	}
	b = le.AppendUint32(b, 0)
	for _, v := range []uint16{head, entry, 2, 64, 0, 0} {
		b = le.AppendUint16(b, v)
	}
	size := uint64(len(code)+page-1) &^ (page - 1)
	for _, p := range [][7]uint64{{1, codeAt, KernelAt, KernelAt, uint64(len(code)), size, 1}, {4, notesAt, 0, 0, uint64(len(note)), uint64(len(note)), 4}} {
		b = le.AppendUint32(le.AppendUint32(b, uint32(p[0])), 7)
		for _, v := range p[1:] {
			b = le.AppendUint64(b, v)
		}
	}
	b = append(append(b, note...), code...)
	return append(b, make([]byte, max(0, page-len(b)))...) // shorter files are not taken for kernels
}
