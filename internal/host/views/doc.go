// Package views says how directories of the host are shown to sandboxes such that each
// has inodes of its own for what is in them: through an overlay of the sandbox's own
// wherever that is possible. Locks, leases and watches are kept with inodes, so that
// nobody else who has the same directory sees or is held up by those of a sandbox. How
// views are mounted is the caller's business.
package views
