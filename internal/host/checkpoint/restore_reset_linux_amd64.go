package checkpoint

import (
	"encoding/binary"
	"errors"
	"net/netip"

	"golang.org/x/sys/unix"
)

// loopback is where sockets of a family are connected to be reset. What leads out of a cell
// is of version 4, also by sockets of version 6.
func loopback(family int) []byte {
	host, size := netip.MustParseAddr("127.0.0.1"), unix.SizeofSockaddrInet4
	if family == unix.AF_INET6 {
		host, size = netip.MustParseAddr("::ffff:127.0.0.1"), unix.SizeofSockaddrInet6
	}
	raw := make([]byte, size)
	binary.NativeEndian.PutUint16(raw, uint16(family))
	copy(hostOf(family, raw), host.AsSlice())
	return raw
}

// resetAll makes the sockets whose connections are not carried over, as programs know them
// from peers that have gone: reading and writing fails with ECONNRESET at once, polls and
// epoll sets tell it. The ports that this takes are free again afterwards; it comes after
// the binding of others, so that they are none of theirs.
func (o *objects) resetAll() {
	lists := map[int][]*SocketState{}
	for _, s := range o.sockets {
		if s.Reset {
			lists[s.Family] = append(lists[s.Family], s)
		}
	}
	for family, list := range lists {
		o.reset(family, list)
	}
}

// reset makes sockets of one family, and a listener to accept and reset them, which ends
// with that.
func (o *objects) reset(family int, list []*SocketState) {
	for _, s := range list {
		// Who does not wait for the connection is, to the kernel, still making it: a
		// call of connect that was interrupted by the checkpoint is then told, too.
		o.script.Call(unix.SYS_SOCKET, uintptr(family), uintptr(s.Type|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK), uintptr(s.Protocol))
		o.socketAt[s.Inode] = o.next()
	}
	listener, address, size := o.listen(family)
	accepted := listener + 1
	for _, s := range list {
		o.script.Call(unix.SYS_CONNECT, o.of(s), address, size).MayFail() // EINPROGRESS; if not that, there is nothing to accept
		o.script.Call(unix.SYS_ACCEPT4, listener, 0, 0, unix.SOCK_CLOEXEC)
		o.script.Call(unix.SYS_CLOSE, accepted)
		o.awaitHangup(s)
		o.options(s)
	}
	o.script.Call(unix.SYS_CLOSE, listener)
}

// resetPatience bounds, in seconds, what takes microseconds unless something is wrong.
const resetPatience = 10

// listen makes a socket, of the next number, that listens on the loopback and accepts
// connections that are reset when they are closed. The port is the kernel's choice, at
// address when it has been made.
func (o *objects) listen(family int) (listener, address, size uintptr) {
	listener = o.at(o.count)
	o.script.Call(unix.SYS_SOCKET, uintptr(family), unix.SOCK_STREAM|unix.SOCK_CLOEXEC, unix.IPPROTO_TCP)
	o.option(listener, unix.SO_LINGER, []uint32{1, 0})
	o.option(listener, unix.SO_RCVTIMEO, []uint32{resetPatience, 0, 0, 0})
	address, size = o.address(loopback(family))
	o.script.Call(unix.SYS_BIND, listener, address, size)
	o.script.Call(unix.SYS_LISTEN, listener, 1)
	length, _ := o.address(binary.NativeEndian.AppendUint32(nil, uint32(size)))
	o.script.Call(unix.SYS_GETSOCKNAME, listener, address, length)
	return listener, address, size
}

func (o *objects) option(fd uintptr, name int, values []uint32) {
	var raw []byte
	for _, v := range values {
		raw = binary.NativeEndian.AppendUint32(raw, v)
	}
	value, size := o.address(raw)
	o.script.Call(unix.SYS_SETSOCKOPT, fd, unix.SOL_SOCKET, uintptr(name), value, size)
}

// awaitHangup waits until the reset has come: only then is its port free, and may every
// option be set.
func (o *objects) awaitHangup(s *SocketState) {
	const errorsAndHangup, milliseconds = 0, 1000
	raw := binary.NativeEndian.AppendUint32(nil, uint32(o.of(s)))
	polled, _ := o.address(append(raw, errorsAndHangup, 0, 0, 0))
	o.resets = append(o.resets, o.script.Call(unix.SYS_POLL, polled, 1, resetPatience*milliseconds))
}

// checkReset says whether all have come.
func (o *objects) checkReset() error {
	for _, polled := range o.resets {
		if polled.Result() != 1 {
			return errors.New("checkpoint: a connection to itself was not reset")
		}
	}
	return nil
}
