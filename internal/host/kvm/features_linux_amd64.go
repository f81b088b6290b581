package kvm

// Features are those of the processor that guests are told, as far as programs in them
// decide by them what instructions to use.
type Features [10]uint32

// Features gives those of this host.
func (s *System) Features() (f Features) {
	for _, e := range s.cpuid.entries[:s.cpuid.count] {
		switch {
		case e.function == 1:
			f[0], f[1] = e.ecx, e.edx
		case e.function == 7 && e.index == 0:
			f[2], f[3], f[4] = e.ebx, e.ecx, e.edx
		case e.function == 7 && e.index == 1:
			f[5] = e.eax
		case e.function == 0xd && e.index == 0:
			f[6] = e.eax
		case e.function == 0xd && e.index == 1:
			f[7] = e.eax
		case e.function == 0x80000001:
			f[8], f[9] = e.ecx, e.edx
		}
	}
	return f
}

// Has says whether all of others are among them.
func (f Features) Has(others Features) bool {
	for i := range f {
		if others[i]&^f[i] != 0 {
			return false
		}
	}
	return true
}
