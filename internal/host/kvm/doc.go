// Package kvm is the kernel's virtualization, as it is asked for by ioctl: machines, their
// processors, memory slots, interrupts and the state of all of them. What a machine is
// made of, and what its devices are, is not its business. Processors are those of x86.
package kvm
