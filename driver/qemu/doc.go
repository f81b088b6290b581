// Package qemu drives QEMU: each sandbox is a machine of the kind "microvm", with
// a kernel of its own, the guest service as its init and nothing but a disk, a
// serial port and a source of entropy attached. It uses KVM where that works and
// QEMU's emulator where it does not, and says which. Kernels, disks and archives
// are made in image/; what happens inside is in guest/pid1.
//
// # Nothing lies around
//
// A machine has no socket, file or directory of its own: QEMU gets everything as
// open descriptors, so it needs no right to any path, runs as a user that nobody
// else is, and leaves nothing but its cgroup when it or this program is killed.
//
// # Templates
//
// Machines are not booted but go on from one that was, and was saved before it was
// anybody's. Its memory is a sealed file that every QEMU maps for itself. See
// template; the guest's part is in guest/pid1.
//
// # Boundary
//
// With KVM the processor stands between the guest and the host. Without it, the
// guest's kernel is run by QEMU in user space: the host sees the system calls of
// that one confined process only, which is a kernel boundary and is stated so.
package qemu
