// Package storedir holds what lets several programs share directories on disk:
// where this user's are, locks that the kernel releases when their holder dies, the
// check that a directory is the caller's own, and sockets in them that nobody but
// the owner gets an answer from. What is kept there is not its business.
package storedir
