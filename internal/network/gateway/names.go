package gateway

import (
	"container/list"
	"net/netip"
	"sync"
)

// maxNames is how many names of a sandbox have addresses at once.
const maxNames = 4096

// namesFrom is the range of the addresses that mean names: one that no host has, of
// 65,536. See RFC 2544, and Addresses for its other half.
var namesFrom = netip.MustParsePrefix("198.19.0.0/16")

// names are the addresses that names have in one sandbox. The one that was least recently
// asked for makes room for another; its address is not given to the next.
type names struct {
	mu     sync.Mutex
	byName map[string]*list.Element
	byAddr map[netip.Addr]*list.Element
	recent *list.List // of named; the last is the oldest
	next   uint16
}

type named struct {
	name string
	addr netip.Addr
}

func newNames() *names {
	return &names{byName: map[string]*list.Element{}, byAddr: map[netip.Addr]*list.Element{}, recent: list.New()}
}

// address is the name's, from now on.
func (n *names) address(name string) netip.Addr {
	n.mu.Lock()
	defer n.mu.Unlock()
	if e := n.byName[name]; e != nil {
		n.recent.MoveToFront(e)
		return e.Value.(named).addr
	}
	if n.recent.Len() >= maxNames {
		oldest := n.recent.Remove(n.recent.Back()).(named)
		delete(n.byName, oldest.name)
		delete(n.byAddr, oldest.addr)
	}
	addr := n.unused()
	e := n.recent.PushFront(named{name, addr})
	n.byName[name], n.byAddr[addr] = e, e
	return addr
}

// unused is an address that no name has. There are more of them than names.
func (n *names) unused() netip.Addr {
	for {
		n.next++
		base := namesFrom.Addr().As4()
		addr := netip.AddrFrom4([4]byte{base[0], base[1], byte(n.next >> 8), byte(n.next)})
		if n.byAddr[addr] == nil && byte(n.next) != 0 && byte(n.next) != 255 {
			return addr
		}
	}
}

// name is what an address means.
func (n *names) name(addr netip.Addr) (name string, ok bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	e := n.byAddr[addr]
	if e == nil {
		return "", false
	}
	n.recent.MoveToFront(e)
	return e.Value.(named).name, true
}
