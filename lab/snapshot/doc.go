// Package snapshot measures what is kept when a running sandbox is copied, by fork or
// by snapshot and restore, and what that costs. What is kept is shown by a program that
// counts, holds memory, an open file and sockets, and is asked in the copy; nobody is
// believed. It scores nothing.
package snapshot
