package nat

import "net/netip"

// Rules are what one sandbox may reach. Nothing that no match allows is reached.
type Rules struct {
	// Matches are asked in order, and the first that fits decides.
	Matches []Match
	// Public allows what no match is about: TCP to every address that is not special.
	Public bool
	// Connections bounds how many there are at once, Rate how many bytes pass in a
	// second, both ways together. No rate is no bound.
	Connections int
	Rate        int64
}

// Match is some ports of some addresses.
type Match struct {
	Deny bool
	UDP  bool
	// First and Last are the ports; zero is every port.
	First, Last uint16
	// Prefix are the addresses, of version 4. If it is not valid they are a set, which
	// begins with Addresses and is changed by Port.Change.
	Prefix    netip.Prefix
	Addresses []netip.Addr
	// Local says that the addresses may be the host's own.
	Local bool
}

// Change is what is added to and removed from the addresses of a match, by its place in
// the rules.
type Change struct {
	Match       int
	Add, Remove []netip.Addr
}

// Flow is a connection, or what stands for one, of a sandbox.
type Flow struct {
	To   netip.Addr
	Port uint16
	UDP  bool
}
