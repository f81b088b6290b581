package checkpoint

import (
	"encoding/binary"
	"fmt"

	"golang.org/x/sys/unix"
)

// writeSockets appends the making of all sockets: first those that others connect to.
func (o *objects) writeSockets() error {
	for _, s := range o.sockets {
		if s.Peer == 0 && !s.Orphan && !s.Reset {
			o.standalone(s)
		}
	}
	o.resetAll()
	for _, s := range o.sockets {
		if _, done := o.socketAt[s.Inode]; done {
			continue
		}
		if err := o.connected(s, o.socket(s.Peer)); err != nil {
			return err
		}
	}
	for _, s := range o.sockets {
		if s.Shut != 0 && !s.Orphan && s.Peer != 0 {
			o.script.Call(unix.SYS_SHUTDOWN, o.of(s), uintptr(s.Shut-1))
		}
	}
	return nil
}

func (o *objects) of(s *SocketState) uintptr { return o.at(o.socketAt[s.Inode]) }

// standalone makes a socket that is not connected to another of the cell.
func (o *objects) standalone(s *SocketState) {
	o.script.Call(unix.SYS_SOCKET, uintptr(s.Family), uintptr(s.Type|unix.SOCK_CLOEXEC), uintptr(s.Protocol))
	o.socketAt[s.Inode] = o.next()
	o.options(s)
	if s.Bound() {
		if path := s.Path(); path != "" {
			o.script.Call(unix.SYS_UNLINKAT, here, o.script.String(path), 0).MayFail()
		}
		address, size := o.address(s.anywhere())
		o.script.Call(unix.SYS_BIND, o.of(s), address, size)
		if path := s.Path(); path != "" && s.Mode != 0 {
			o.script.Call(unix.SYS_FCHMODAT, here, o.script.String(path), uintptr(s.Mode))
		}
	}
	switch {
	case s.Listens:
		o.script.Call(unix.SYS_LISTEN, o.of(s), uintptr(s.Backlog))
	case s.Family != unix.AF_UNIX && len(s.Remote) > 0:
		address, size := o.address(s.Remote)
		connect := o.script.Call(unix.SYS_CONNECT, o.of(s), address, size)
		if s.deviceAddress() != nil {
			connect.MayFail() // a cell that has no network any more has no way to it
		}
	}
}

// Bound says that the socket has an address of its own.
func (s *SocketState) Bound() bool {
	if s.Family == unix.AF_UNIX {
		return named(s.Local)
	}
	return len(s.Local) > 4 && binary.BigEndian.Uint16(s.Local[2:]) != 0 // its port
}

// address puts bytes into the script.
func (o *objects) address(raw []byte) (at, size uintptr) {
	address, mem := o.script.Bytes(len(raw))
	copy(mem, raw)
	return address, uintptr(len(raw))
}

func (o *objects) options(s *SocketState) {
	for _, option := range s.Options {
		value, size := o.address(option.Value)
		o.script.Call(unix.SYS_SETSOCKOPT, o.of(s), uintptr(option.Level), uintptr(option.Name), value, size)
	}
}

// connected makes two sockets that are connected to each other, with what each
// has not read yet. peer is nil if that one is closed.
func (o *objects) connected(s, peer *SocketState) error {
	if peer != nil && peer.Peer != s.Inode {
		return o.toNamed(s, peer)
	}
	if peer == nil {
		peer = &SocketState{Inode: ^s.Inode, Family: s.Family, Type: s.Type}
	}
	server, client := s, peer
	if named(peer.Local) {
		server, client = peer, s
	}
	switch {
	case named(client.Local):
		return fmt.Errorf("checkpoint: both ends of a connection have names")
	case !named(server.Local):
		pair, _ := o.script.Bytes(8)
		o.script.Call(unix.SYS_SOCKETPAIR, uintptr(s.Family), uintptr(s.Type|unix.SOCK_CLOEXEC), 0, pair)
		o.socketAt[s.Inode], o.socketAt[peer.Inode] = o.next(), o.next()
	default:
		if err := o.accept(server, client); err != nil {
			return err
		}
	}
	o.options(s)
	o.options(peer)
	o.fill(s, peer)
	o.fill(peer, s)
	return nil
}

// accept connects a socket to one that listens under the server's name.
func (o *objects) accept(server, client *SocketState) error {
	for _, listener := range o.sockets {
		if !listener.Listens || string(listener.Local) != string(server.Local) {
			continue
		}
		o.script.Call(unix.SYS_SOCKET, unix.AF_UNIX, uintptr(client.Type|unix.SOCK_CLOEXEC), 0)
		o.socketAt[client.Inode] = o.next()
		address, size := o.address(server.Local)
		o.script.Call(unix.SYS_CONNECT, o.of(client), address, size)
		o.script.Call(unix.SYS_ACCEPT4, o.of(listener), 0, 0, unix.SOCK_CLOEXEC)
		o.socketAt[server.Inode] = o.next()
		return nil
	}
	return fmt.Errorf("checkpoint: nobody listens any more under the name of a connection")
}

// toNamed makes a socket for datagrams that another does not answer.
func (o *objects) toNamed(s, peer *SocketState) error {
	if s.Type != unix.SOCK_DGRAM || !named(peer.Local) || len(s.Queue) > 0 {
		return fmt.Errorf("checkpoint: a socket is connected to one that has no name")
	}
	single := *s
	single.Peer = 0
	o.standalone(&single)
	address, size := o.address(peer.Local)
	o.script.Call(unix.SYS_CONNECT, o.of(s), address, size)
	return nil
}

// fill sends what a socket has not read yet by its peer.
func (o *objects) fill(s, by *SocketState) {
	for _, message := range s.Queue {
		data, size := o.address(message)
		step := o.script.Call(unix.SYS_SENDTO, o.of(by), data, size, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, 0, 0)
		o.copies = append(o.copies, transfer{step, uint64(len(message))})
	}
}
