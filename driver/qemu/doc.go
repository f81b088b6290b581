// Package qemu drives QEMU: what its command line has and what it is told over its
// monitor. Each sandbox is a machine of the kind "microvm", with nothing but a disk, a
// serial port and a source of entropy attached. Machines use KVM where that works and
// QEMU's emulator where it does not. Everything that machines of other monitors have
// as well is in driver/vmm.
package qemu
