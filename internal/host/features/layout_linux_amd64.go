package features

// Requests of /dev/kvm that only this architecture has, and their structures as
// the kernel lays them out.
const (
	kvmSetTSSAddr        = 0xae47
	kvmGetSupportedCPUID = 0xc008ae05
	kvmSetCPUID2         = 0x4008ae90
	kvmGetSRegs          = 0x8138ae83
	kvmSetSRegs          = 0x4138ae84
	kvmSetRegs           = 0x4090ae82

	maxCPUID = 256
)

type segment struct {
	_        uint64 // base
	limit    uint32
	selector uint16
	// Between them are dpl and, at the end, avl, unusable and padding.
	kind, present, _, db, s, l, g, _, _, _ uint8
}

type table struct {
	base  uint64
	limit uint16
	_     [3]uint16
}

type specialRegisters struct {
	cs, ds, es, fs, gs, ss, _, _ segment // and tr, ldt
	gdt, idt                     table
	cr0, _, cr3, cr4, _, efer, _ uint64    // cr2, cr8 and the APIC base between
	_                            [4]uint64 // interrupts
}

type registers struct {
	_           [6]uint64 // rax, rbx, rcx, rdx, rsi, rdi
	rsp         uint64
	_           [9]uint64 // rbp, r8 to r15
	rip, rflags uint64
}

type cpuid struct {
	count   uint32
	_       uint32
	entries [maxCPUID][10]uint32
}
