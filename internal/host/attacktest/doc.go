// Package attacktest are ways to reach a host that go past the calls of a program's
// standard library: by io_uring, by echo requests, by sockets that take nothing. Programs
// that attack a sandbox's network from inside use it; what must not be reached, and what
// becomes of it, is the business of their tests.
package attacktest
