// Package inroot reaches files beneath a root directory as a process whose root
// it is would: absolute links start at that root and no path, link or race leads
// out of it. Who may ask and over which wire is not decided here.
//
// Every call resolves its path once, with openat2 and RESOLVE_IN_ROOT, and then
// works on the descriptor it got. Nothing is resolved a second time after a
// check, so a sandbox that swaps directories for links while it is being served
// only ever changes which of its own files is meant.
package inroot
