// Package subreaper awaits every child of a process that is the first of its
// sandbox: those that it started, to tell how they ended, and those that it
// inherited when their parents ended, so that they do not stay as zombies. A
// process that is not the first must not use it, nor package os/exec beside it:
// both would wait for the same children.
package subreaper
