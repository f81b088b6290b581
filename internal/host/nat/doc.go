// Package nat connects sandboxes to the networks of this host through the kernel: for
// each program a net namespace of its own, the router, with a pair of virtual cables to
// each sandbox, one to the host, and a table of nftables that decides about each new
// connection. What is allowed is said in addresses and ports; where names and policies
// come from is not its business.
//
// # Two source addresses
//
// What leaves the router has one of two addresses of the program: one for what was
// allowed by its address, and one for what was allowed because it is public. So the host,
// which alone knows at each moment which addresses are its own, can refuse those to the
// second.
//
// # Nothing is left
//
// The router's namespace is held by descriptors of this program alone, and a cable goes
// with either of its ends. The host's table is owned by a socket of this program and goes
// with it. However the program ends, the kernel removes all of it.
package nat
