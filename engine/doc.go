// Package engine keeps sandboxes ready over any driver: templates that are
// prepared once and forked, pools of children that are forked ahead, and the tree
// of who was forked from whom. How a sandbox is made or forked is a driver's
// business, and who may ask for one is that of the front doors.
//
// # Templates
//
// A Recipe says what a template is: an image, commands to run, a process to leave
// running (a command, or an interpreter with code that it has run), and when it is
// ready. Prepare does all of that once. The template is then frozen, where its
// driver can, and nobody reaches it any more: only forks leave it. Where a driver
// forks only what runs, the template is let go for the length of a fork.
//
// # Children
//
// A child goes on from the very instruction at which its source was. Interpreters
// are told to draw new random numbers before anybody gets at the child: until then
// they would repeat those of their siblings. A child may be forked in turn, to any
// depth, and outlives what it was forked from.
//
// # Pools
//
// A Pool keeps children ready in the background, so that a claim is no more than
// taking one from a list. It belongs to one tenant. What was handed out never
// comes back: a child that somebody used is somebody's.
//
// # Lifetimes
//
// The contexts of calls bound the calls and nothing that they made. Close gives
// everything back: pools, children and templates.
package engine
