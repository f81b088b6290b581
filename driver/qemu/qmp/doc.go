// Package qmp speaks QEMU's machine protocol: one command at a time, as lines of
// JSON over a socket. What QEMU says is bounded: a guest may have taken it over.
package qmp
