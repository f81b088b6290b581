package kvm

import (
	"fmt"
	"os"
	"unsafe"
)

// System is /dev/kvm, and what is the same for all machines of this host.
type System struct {
	file    *os.File
	runSize int
	cpuid   cpuidTable
	msrs    []uint32
}

const (
	maxCPUID = 256
	maxMSRs  = 1024
)

// cpuidEntry is what a guest is told to one question.
type cpuidEntry struct {
	function, index, flags uint32
	eax, ebx, ecx, edx     uint32
	_                      [3]uint32
}

type cpuidTable struct {
	count, _ uint32
	entries  [maxCPUID]cpuidEntry
}

type msrList struct {
	count   uint32
	indices [maxMSRs]uint32
}

// Open asks an open /dev/kvm what it can.
func Open(file *os.File) (*System, error) {
	s := &System{file: file}
	var err error
	if s.runSize, err = ioctl(s.fd(), getRunSize, 0); err != nil {
		return nil, err
	}
	s.cpuid.count = maxCPUID
	if _, err := ioctlAt(s.fd(), getSupportedCPUID, unsafe.Pointer(&s.cpuid)); err != nil {
		return nil, err
	}
	list := msrList{count: maxMSRs}
	if _, err := ioctlAt(s.fd(), getMSRIndexList, unsafe.Pointer(&list)); err != nil {
		return nil, err
	}
	if list.count > maxMSRs || s.cpuid.count > maxCPUID {
		return nil, fmt.Errorf("kvm: it lists %d registers and %d features", list.count, s.cpuid.count)
	}
	s.msrs = order(list.indices[:list.count])
	hide(s.cpuid.entries[:s.cpuid.count])
	return s, nil
}

func (s *System) fd() int { return int(s.file.Fd()) }

// hide takes away what no guest is told of: virtualization, whose state is in no CPUState
// and whose emulation is the larger part of what a guest could attack, and counters of
// events, by which guests learn of each other.
func hide(entries []cpuidEntry) {
	const (
		intelVirtualization, counterCapabilities = 1 << 5, 1 << 15 // of ECX
		amdVirtualization                        = 1 << 2
	)
	for i := range entries {
		e := &entries[i]
		switch e.function {
		case 1:
			e.ecx &^= intelVirtualization | counterCapabilities
		case 0xa: // counters
			e.eax, e.ebx, e.ecx, e.edx = 0, 0, 0, 0
		case 0x80000001:
			e.ecx &^= amdVirtualization
		case 0x8000000a: // virtualization of AMD
			e.eax, e.ebx, e.ecx, e.edx = 0, 0, 0, 0
		}
	}
}

// cpuidOf is what one processor of several is told. Each is a package of its own, as
// simple as processors come.
func (s *System) cpuidOf(id int) *cpuidTable {
	const (
		tscDeadline = 1 << 24
		hypervisor  = 1 << 31
	)
	table := s.cpuid
	for i := range table.entries[:table.count] {
		e := &table.entries[i]
		switch e.function {
		case 1:
			e.ebx = e.ebx&0xffff | 1<<16 | uint32(id)<<24
			e.ecx |= tscDeadline | hypervisor // the former is there, and never said to be
		case 0xb, 0x1f:
			e.edx = uint32(id)
		case 0x8000001e:
			e.eax, e.ebx = uint32(id), uint32(id)
		case featuresKVM:
			// Pages that are waited for, and ends of interrupts that are told in
			// memory: state that no other machine could go on with.
			e.eax &^= 1<<4 | 1<<6 | 1<<10 | 1<<14
		}
	}
	return &table
}

const featuresKVM = 0x40000001
