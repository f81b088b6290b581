// Package checkpoint reads everything that a stopped process is made of (memory,
// threads, signals, timers) and writes it as steps of a script: those by which
// another process takes on its memory, and those by which a child of that one
// takes on the rest, so as to go on from the same instruction. Which namespaces
// and rules the child lives under, and what its descriptors are, is not decided
// here.
//
// It knows the state of Linux processes well enough to know what it does not
// know: whatever it could not carry over is refused, by name, and nothing has
// been changed then.
package checkpoint
