// Package idrange gives sandboxes that root makes ids of the host that no other living
// sandbox has, and lets a thread make user namespaces in the name of one that is nobody's.
// The kernel counts many things for the user whose they are, and for the one who made the
// user namespace that they are in: sandboxes that shared either could take them from each
// other and from the host. How ids are mapped is the caller's business.
package idrange
