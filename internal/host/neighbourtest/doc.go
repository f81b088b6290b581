// Package neighbourtest is what a program does that tries how well sandboxes are kept
// apart: it takes something in one sandbox (a lock, a queue, all inotify instances), and
// says in another one whether it meets what the first has taken. Which sandboxes, and what
// must not be met, is the business of driver/drivertest.
//
// A program that calls Serve reads orders from its standard input, a line each, and
// answers each with a line:
//
//	hold KIND [ARG]   takes it, until the next free   ok DETAIL | refused DETAIL
//	free              lets go of all that it holds    ok
//	meet KIND [ARG]   met DETAIL | free DETAIL
//	look              what was held is a watch        met | free
//	use ARG           reads and executes a program    ok | refused DETAIL
//
// Everything that it takes is bounded in number and in time, and is gone with the
// program, which ends with its input.
package neighbourtest
