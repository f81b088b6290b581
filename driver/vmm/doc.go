// Package vmm is a driver for any monitor that runs one machine in one process and
// is told what to do over a socket, as Firecracker, Cloud Hypervisor and QEMU are: it
// makes what a machine boots from, starts the monitor with few rights, watches over
// it and ends it. What a monitor is told, and how, is each driver's own, as a
// System; what happens inside the machine is in guest/pid1.
//
// # A machine's directory
//
// A monitor opens files and makes sockets by their names. Each has a directory of
// its own for that, in which it works, and every name that it is given is relative
// to it. So a snapshot, which keeps those names, can be restored any number of
// times side by side. The directory holds links to what machines share (the disk,
// the memory of a snapshot) and goes with its machine; that of a program that was
// killed is removed by the next one (Reap).
//
// # What systems can have otherwise
//
//   - Inherit: the monitor has no directory but inherits open descriptors, its socket
//     and the guest's serial port among them. A machine then has no name anywhere.
//     Both are a workplace: home is the directory, wires are the descriptors.
//   - Handed: the monitor is our own, is started in a jail (internal/host/jail) with
//     /dev/kvm and two sockets, and is handed everything of its machine, and each
//     connection to its guest, over these. So it can be started ahead, and a few wait for
//     the next machine (warmPool). It is a Forker: forks share memory with their source, and
//     are told from it before anything in them runs.
//   - Template: machines are not booted but go on from one that was, and was saved
//     before it was anybody's. Its memory is a sealed file that every monitor maps
//     for itself. See template; the guest's part is in guest/pid1.
//   - Emulates: machines run without KVM, where it does not work or always. That is a
//     kernel boundary, and Info and the probe say so.
//   - AnyVersion: the program is used without being asked what it is.
//
// # What a monitor may do
//
// A guest that breaks out of its machine is in the monitor first. It runs as a user
// that nobody else is, in a cgroup, without a network, and may write to its own
// directory only, if it has one. What it shares with other machines it can read, by a
// group that nobody else has, or by its descriptors. This program trusts nothing in
// the directory: it follows no link there, and speaks to no socket that another user
// made.
package vmm
