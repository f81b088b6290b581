package features

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"os"
)

const kvmDetail = "runs guests in long mode"

// The guest's memory, by address.
const (
	guestSize    = 64 << 10
	pageTables   = 0x1000 // three levels, a page each, map the first 2 MiB to themselves
	descriptors  = 0x4000
	interrupts   = 0x5000
	guestCode    = 0x6000
	guestHandler = 0x6800
	guestResults = 0x7000
	guestStack   = 0x9000
)

// guestProgram executes what emulators that pass for KVM are known to get wrong,
// and stores the results.
var guestProgram = []byte{
	0x48, 0xb8, 0x01, 0x00, 0xff, 0xff, 0x34, 0x12, 0x0f, 0x0f, // mov rax, popcntInput
	0xf3, 0x48, 0x0f, 0xb8, 0xd8, // popcnt rbx, rax
	0x48, 0x89, 0x1c, 0x25, 0x00, 0x70, 0, 0, // mov [0x7000], rbx
	0xb8, 1, 0, 0, 0, // mov eax, 1
	0xba, 2, 0, 0, 0, // mov edx, 2
	0xbb, 3, 0, 0, 0, // mov ebx, 3
	0xb9, 4, 0, 0, 0, // mov ecx, 4
	0xf0, 0x48, 0x0f, 0xc7, 0x0c, 0x25, 0x10, 0x70, 0, 0, // lock cmpxchg16b [0x7010]
	0xdb, 0xe3, // fninit
	0x9b, // fwait
	0xcc, // int3
	0xf4, // hlt
}

// handlerProgram answers int3.
var handlerProgram = []byte{
	0x48, 0xff, 0x04, 0x25, 0x20, 0x70, 0, 0, // inc qword [0x7020]
	0x48, 0xcf, // iretq
}

const popcntInput = 0x0f0f_1234_ffff_0001

// guestExpects are the words that a right processor leaves in memory.
var guestExpects = []struct {
	instruction string
	address     int
	value       uint64
}{
	{"popcnt", guestResults, uint64(bits.OnesCount64(popcntInput))},
	{"cmpxchg16b", guestResults + 0x10, 3},
	{"cmpxchg16b", guestResults + 0x18, 4},
	{"int3", guestResults + 0x20, 1},
}

func tryGuest(ctx context.Context, device int) error {
	return runGuest(ctx, device, guestProgram, checkGuest)
}

// runGuest runs a program and has its memory checked when it has ended, in
// whatever way: what went wrong inside says more than how it ended.
func runGuest(ctx context.Context, device int, program []byte, check func(memory []byte) error) (err error) {
	m, err := newMachine(device, guestSize)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.close()) }()
	m.load(program)
	if err := m.longMode(device); err != nil {
		return err
	}
	runErr := m.run(ctx)
	if err := check(m.memory); err != nil && runErr != nil {
		return fmt.Errorf("%w, and %w", err, runErr)
	} else if err != nil {
		return err
	}
	return runErr
}

func checkGuest(memory []byte) error {
	for _, want := range guestExpects {
		if got := binary.LittleEndian.Uint64(memory[want.address:]); got != want.value {
			return fmt.Errorf("%s gives %d instead of %d", want.instruction, got, want.value)
		}
	}
	return nil
}

// load writes the guest's tables, programs and data.
func (m *machine) load(program []byte) {
	word := func(address int, value uint64) { binary.LittleEndian.PutUint64(m.memory[address:], value) }
	const present, large = 3, 0x80 // present and writable; a page of 2 MiB
	word(pageTables, pageTables+0x1000|present)
	word(pageTables+0x1000, pageTables+0x2000|present)
	word(pageTables+0x2000, present|large)

	word(descriptors+8, 0x00af9a000000ffff)  // code of 64 bits
	word(descriptors+16, 0x00cf92000000ffff) // data
	const gate = 0x8e00 << 32                // an interrupt gate, present
	word(interrupts+3*16, guestHandler|8<<16|gate)

	copy(m.memory[guestCode:], program)
	copy(m.memory[guestHandler:], handlerProgram)
	word(guestResults+0x10, 1)
	word(guestResults+0x18, 2)
}

// longMode puts the processor where a kernel of 64 bits starts.
func (m *machine) longMode(device int) error {
	if err := m.features(device); err != nil {
		return err
	}
	var s specialRegisters
	if err := control(m.vcpu, "KVM_GET_SREGS", kvmGetSRegs, &s); err != nil {
		return err
	}
	data := segment{limit: 0xffffffff, selector: 16, kind: 3, present: 1, db: 1, s: 1, g: 1}
	s.ds, s.es, s.fs, s.gs, s.ss = data, data, data, data, data
	s.cs = segment{limit: 0xffffffff, selector: 8, kind: 11, present: 1, s: 1, l: 1, g: 1}
	s.gdt = table{base: descriptors, limit: 23}
	s.idt = table{base: interrupts, limit: 0xfff}
	const pe, mp, ne, pg = 1, 1 << 1, 1 << 5, 1 << 31
	const pae, osfxsr = 1 << 5, 1 << 9
	const lme, lma = 1 << 8, 1 << 10
	s.cr0, s.cr3, s.cr4, s.efer = pe|mp|ne|pg, pageTables, pae|osfxsr, lme|lma
	if err := control(m.vcpu, "KVM_SET_SREGS", kvmSetSRegs, &s); err != nil {
		return err
	}
	r := registers{rip: guestCode, rsp: guestStack, rflags: 2}
	return control(m.vcpu, "KVM_SET_REGS", kvmSetRegs, &r)
}

// features gives the guest the processor that the host has.
func (m *machine) features(device int) error {
	// Below 4 GiB, and clear of the guest's memory: some processors need it.
	if _, err := ioctl(m.vm, kvmSetTSSAddr, 0xfffb_d000); err != nil {
		return os.NewSyscallError("KVM_SET_TSS_ADDR", err)
	}
	id := cpuid{count: maxCPUID}
	if err := control(device, "KVM_GET_SUPPORTED_CPUID", kvmGetSupportedCPUID, &id); err != nil {
		return err
	}
	return control(m.vcpu, "KVM_SET_CPUID2", kvmSetCPUID2, &id)
}
