// Package command is a driver for any isolation system that is a program: it
// starts the program around an overlay of the image with the guest service as the
// first process inside, limits it, watches over it and ends it. Which program,
// what it is told and what it needs of the host is each driver's own, as a System.
//
// # How a sandbox is made
//
// internal/host/launch makes user, mount and pid namespaces and in them the root file
// system on a stage that no directory of the host shows, and a /proc of the new pid
// namespace, by which the program finds its own children. A few lines of shell make
// the rest of the stage ready: what Command.Prepare asks for, and the program's
// configuration. Then the shell becomes the program. A program that needs none of
// this is started without a shell.
//
// The program is the first process of its pid namespace, so that its end is the
// end of the whole sandbox; it dies with this program; and all that it keeps is on
// the stage, which goes with it. What is left is a cgroup, for Reap.
package command
