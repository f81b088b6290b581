// Package disk makes the root file system of a machine: one read-only disk image
// (erofs, uncompressed) out of the layers and directories that package image
// resolved, made once for each content and kept. It needs neither privilege nor
// any tool. Attaching the disk and writing above it is the business of drivers
// and of the init inside.
//
// # What is kept
//
// Owners, modes (also set-user-id bits: inside a machine they are armed against
// nobody but the machine), times, hard links, pipes, sockets and the attributes
// user.*, security.capability and POSIX access lists. Whiteouts and opaque
// directories are resolved. Devices are left out: a machine has its own. What an
// ordinary user may not read is there, empty and closed; what belongs to that
// user belongs to root inside, as it does in a user namespace.
//
// # Cache
//
// An image of the store is named by its digest. The host's system and plain
// directories can change at any time: they are named by the metadata of all
// their files, which takes a look at each file but reads none.
package disk
