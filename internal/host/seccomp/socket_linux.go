package seccomp

import "golang.org/x/sys/unix"

// Family is a family of sockets that may be made, and for which protocols.
type Family struct {
	Number    uint32
	Protocols []uint32
}

// Sockets are all of them. Protocol 0 is the family's ordinary one, and a unix socket has
// no other: programs give it that or its own number.
var Sockets = []Family{
	{unix.AF_UNIX, []uint32{0, unix.AF_UNIX}},
	{unix.AF_INET, []uint32{0, unix.IPPROTO_TCP, unix.IPPROTO_UDP, unix.IPPROTO_ICMP}},
	{unix.AF_INET6, []uint32{0, unix.IPPROTO_TCP, unix.IPPROTO_UDP, unix.IPPROTO_ICMPV6}},
	{unix.AF_NETLINK, []uint32{unix.NETLINK_ROUTE}},
}

// sockets emits the check of a socket's family and protocol. What is refused answers as
// the kernel does that does not have it.
func (a *assembler) sockets() {
	a.loadArg(0)
	labels := make([]int, len(Sockets))
	for i, family := range Sockets {
		labels[i] = a.fresh()
		a.conditional(unix.BPF_JEQ, family.Number, labels[i], next)
	}
	a.ret(noFamily)
	for i, family := range Sockets {
		a.label(labels[i])
		a.loadArg(2)
		for _, protocol := range family.Protocols {
			a.ifEqual(protocol, allow)
		}
		a.ret(noProtocol)
	}
}
