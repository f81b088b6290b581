// Package gateway is the only neighbour of a sandbox on its network: a TCP/IP stack of
// this program's own (gVisor's) at the other end of the sandbox's device, which asks a
// policy about every name and every connection, and makes the connections that it allows
// itself, from the host, by name.
//
// # Names
//
// Questions to any name server are answered here. An allowed name has an address of its
// own, which means that name and nothing else, and only in that sandbox; so the policy
// follows the name whatever is spoken there, and what a name resolves to is looked at
// right before a connection is made, by who makes it. Other names do not exist.
//
// # What is looked into
//
// TLS is passed on if the name it is opened for is the one that was asked for; HTTP that
// is not encrypted is read, request by request, and passed on if it is for that name.
// Everything else is passed on as it is.
//
// # Hostile sandboxes
//
// Whatever a sandbox sends is hostile. Its connections, those that are being made, its
// names, its questions a second and the memory that they take are bounded, for each
// sandbox and for all together. No packet of one sandbox reaches another.
package gateway
