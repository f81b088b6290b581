// Package netdev makes the network device of a sandbox: a tap in the sandbox's net
// namespace, with an address, a route and a neighbour, whose other end this program
// holds. What is done with the packets is not its business.
//
// The device is made by a child that walks a script in the user and net namespaces of
// the sandbox, so that an ordinary user can do it too and nothing is executed there. Its
// descriptor comes back over a socket. The device lives as long as the namespace or the
// last copy of that descriptor, whichever ends first. A device that somebody else has put
// there is configured in the same way.
//
// A machine has a net namespace that this program cannot enter: its init makes the device
// (OpenHere) and carries the packets (Send, Receive) over a stream to whoever reads them
// here (Stream).
package netdev
