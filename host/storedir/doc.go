// Package storedir holds what lets several programs share one directory on disk:
// locks that the kernel releases when their holder dies, and the check that the
// directory is the caller's own. What is kept in such a directory is not its
// business.
package storedir
