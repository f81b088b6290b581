package features

import (
	"testing"
	"unsafe"
)

// The size of a structure is part of its request's number.
func TestLayoutsMatchTheKernel(t *testing.T) {
	for name, c := range map[string]struct {
		request uintptr
		size    uintptr
	}{
		"kvm_sregs":                      {kvmSetSRegs, unsafe.Sizeof(specialRegisters{})},
		"kvm_regs":                       {kvmSetRegs, unsafe.Sizeof(registers{})},
		"kvm_userspace_memory_region":    {kvmSetUserMemoryRegion, unsafe.Sizeof(memoryRegion{})},
		"kvm_cpuid2 without its entries": {kvmSetCPUID2, unsafe.Offsetof(cpuid{}.entries)},
	} {
		if want := c.request >> 16 & 0x3fff; c.size != want {
			t.Errorf("%s has %d bytes, want %d", name, c.size, want)
		}
	}
}
