// Package confine turns processes into confined ones: namespaces, a root file
// system of one's own, identities, and the locks (capabilities, landlock,
// seccomp, resource limits) that keep hostile code inside. It works through the
// scripts of package spawn and decides nothing about which sandbox gets what.
//
// # How a cell is made
//
// A Base is an image made ready: a stage (a small mount tree) on which the
// image's layers, its read-only directories and a /dev with harmless nodes
// stand at short paths. Boot clones PID 1 of a new cell into new namespaces with
// a copy of that stage, mounts an overlay with a writable layer of its own over
// it, makes that its root and locks it. Exec clones a process
// that joins a living cell and locks itself in the same way. Both can be done
// ahead: a WarmCell is a cell that has no name yet, a pre-joined process a process that has
// joined and locked itself before its command is known.
//
// Run by root, the stage is made once for each image and inherited; ids 0 to
// 65535 of the cell are high ids of the host that own nothing, and image files
// are shown with their own ids by id-mapped mounts. Run by an ordinary user,
// each cell makes its stage itself, inside its own user namespace, and has one
// id, the caller's. Both walk the same steps.
//
// # Sharing memory with hostile neighbours
//
// Until it executes its program, a process that enters a cell shares this
// program's memory. Code in the cell must not be able to read it there, so this
// program is made undumpable, which denies tracing and /proc/PID/mem to all but
// a root outside. A pre-joined process shares it for longer, but nobody in the cell can so
// much as name it: it is outside of the cell's pid namespace until its command
// comes, and then only its child, for as long as any other, is in there.
package confine
