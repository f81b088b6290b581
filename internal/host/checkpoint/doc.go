// Package checkpoint reads everything that a stopped tree of processes is made of
// (memory, threads, signals, timers, descriptors) into a Checkpoint, encodes and
// decodes it, and writes it as the steps of a script by which other processes, in
// another cell, become those processes and go on from the same instruction. Which
// namespaces and rules they live under is package confine's business, and which
// process holds the memory that they share copy-on-write is package zygote's.
//
// It knows the state of Linux processes well enough to know what it does not know:
// whatever it could not carry over is refused, by name, and nothing has been changed
// then.
//
// # Reading
//
// Stop seizes every thread with ptrace. What the kernel tells others (/proc, ptrace,
// kcmp, pidfd_getfd) is read from outside. The rest is read by a parasite: a few
// instructions put into a page of the process's text, by which each thread makes a
// list of system calls at once.
//
// # Restoring
//
// FileRestorer makes the files that processes held: pipes, terminals and plain files
// by this program, and sockets, memory and files without a name by a helper process
// of the new cell. Restore writes the script of the processes themselves. The first
// one has its memory already, as a fork of a zygote; the others are cloned by their
// parents and read theirs from a file. In the end ptrace gives each thread its
// registers.
package checkpoint
