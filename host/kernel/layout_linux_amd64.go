package kernel

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
	base                                         uint64
	limit                                        uint32
	selector                                     uint16
	kind, present, dpl, db, s, l, g, avl, absent uint8
	_                                            uint8
}

type table struct {
	base  uint64
	limit uint16
	_     [3]uint16
}

type specialRegisters struct {
	cs, ds, es, fs, gs, ss, tr, ldt         segment
	gdt, idt                                table
	cr0, cr2, cr3, cr4, cr8, efer, apicBase uint64
	interrupts                              [4]uint64
}

type registers struct {
	rax, rbx, rcx, rdx, rsi, rdi, rsp, rbp uint64
	r8, r9, r10, r11, r12, r13, r14, r15   uint64
	rip, rflags                            uint64
}

type cpuid struct {
	count   uint32
	_       uint32
	entries [maxCPUID][10]uint32
}
