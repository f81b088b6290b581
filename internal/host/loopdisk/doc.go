// Package loopdisk makes file systems of a fixed size in plain files and mounts
// them through loop devices that end with the mount. Whose they are and what is
// written to them is not its business.
//
// Nothing here needs to be undone but the file: a device that was attached is
// detached by the kernel with its last user, and a mount is a descriptor, in no
// namespace, until somebody attaches it. So a program that is killed leaves the
// file and nothing else, unless it has attached a disk that is meant to last (see
// Attach), which stays where it is until Detach.
package loopdisk
