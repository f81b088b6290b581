// Package coredump keeps the memory of this program, in which keys and secrets may be, from
// being written out by the kernel when the program crashes. Who may look into the memory of
// a living process is not its business.
package coredump
