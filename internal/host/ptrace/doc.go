// Package ptrace stops the threads of other processes, reads and writes their
// registers and signal masks, has them make system calls, one or many at once, and
// lets them go as they were. What a process is made of, and what is done with it, is not
// known here.
//
// The kernel knows a tracer by its thread: everything here must be called on the
// thread that seized. When that thread ends, all that it traces goes on.
package ptrace
