// Package netpool keeps the net namespaces of sandboxes that used no network for those
// that come after them. What runs in one, and who may be given one, is not its business.
//
// The kernel takes about as long to make a net namespace as a sandbox takes for
// everything else, and looks at all others when one ends. One that is kept must be as
// new: no address, rule or setting can have changed, because a namespace of a Pool
// belongs to the user namespace of this program, in which no sandbox has a right; and
// nothing was sent or is left over, which is read out of the kernel's own figures (see
// proof). Whoever sends so much as one packet to itself leaves figures behind, which
// nobody can set back: its namespace is let go.
package netpool
