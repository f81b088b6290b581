// Package zygote forks running cells. For each process of a cell that was started
// from outside it keeps a zygote: a process outside of all cells that holds the
// memory which the process had at the last checkpoint, runs nothing but scripts of
// this program's, and is forked into other cells, where its forks go on as that
// process. What a process is besides its memory, and how it is restored, is in
// package checkpoint; what a cell is, in package confine.
//
// A process cannot be forked into another pid namespace than one within its own, so
// no fork of the process itself could be in a cell beside it. A zygote's can, for
// the zygote is outside.
//
// # Warm forks
//
// Most of the time that a fork takes goes into copying page tables. A zygote that
// has been forked several times keeps a fork ready: a warm fork, which joins the
// next cell as soon as that is known, ahead of the checkpoint. If little has changed
// since then, the few pages that have are written to the warm fork and, later, to
// the zygote.
package zygote
