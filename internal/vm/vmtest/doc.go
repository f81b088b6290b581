// Package vmtest writes guests that need no operating system: a few instructions, in a file
// that a monitor boots like a kernel. Most of them do to their devices what no driver does.
// It holds no test of its own.
package vmtest
