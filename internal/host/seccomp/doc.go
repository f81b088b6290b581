// Package seccomp holds the system call filter of process-level sandboxes: an
// allow-list with a reason for everything refused, compiled to a balanced
// decision tree. It builds the program; installing it is a step of a script.
//
// The tree matters: on installation the kernel emulates the filter once for
// every system call number, so a linear list of 150 comparisons costs a new
// process several times what the tree does.
package seccomp
