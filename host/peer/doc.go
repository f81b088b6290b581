// Package peer says which user is at the other end of a unix socket, as the kernel
// knows it. What that user may do is the business of whoever listens.
package peer
