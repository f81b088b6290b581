// Package vm is a machine: memory, processors, the tables by which its kernel finds its
// devices, a serial port, and the devices of package virtio, over the kernel's KVM. It
// boots an unmodified Linux kernel by its PVH entry. It knows no sandbox and no driver; who
// runs it, and as what, is package monitor's.
package vm
