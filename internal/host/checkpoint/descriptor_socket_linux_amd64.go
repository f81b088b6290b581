package checkpoint

import (
	"encoding/binary"
	"fmt"
	"os"
	"path"
	"syscall"
	"unsafe"

	"aether/internal/host/inroot"

	"golang.org/x/sys/unix"
)

// Path is the path that the socket is bound to, or empty.
func (s *SocketState) Path() string {
	if s.Family != unix.AF_UNIX || len(s.Local) < 3 || s.Local[2] == 0 {
		return ""
	}
	return unix.ByteSliceToString(s.Local[2:])
}

// named says that a unix socket has an address.
func named(address []byte) bool { return len(address) > 2 }

// maxQueue bounds what a socket may hold unread.
const maxQueue = 4 << 20

// optionsOf are those that are carried over: of every socket, of streams of the
// internet, and of its sixth version.
var optionsOf = []struct{ family, kind, level, name, size int }{
	{0, 0, unix.SOL_SOCKET, unix.SO_REUSEADDR, 4},
	{0, 0, unix.SOL_SOCKET, unix.SO_KEEPALIVE, 4},
	{0, 0, unix.SOL_SOCKET, unix.SO_BROADCAST, 4},
	{0, 0, unix.SOL_SOCKET, unix.SO_OOBINLINE, 4},
	{0, 0, unix.SOL_SOCKET, unix.SO_RCVLOWAT, 4},
	{0, 0, unix.SOL_SOCKET, unix.SO_LINGER, 8},
	{0, 0, unix.SOL_SOCKET, unix.SO_RCVTIMEO, 16},
	{0, 0, unix.SOL_SOCKET, unix.SO_SNDTIMEO, 16},
	{0, 0, unix.SOL_SOCKET, unix.SO_TIMESTAMP, 4},
	{unix.AF_UNIX, 0, unix.SOL_SOCKET, unix.SO_PASSCRED, 4},
	{unix.AF_INET, 0, unix.SOL_SOCKET, unix.SO_REUSEPORT, 4},
	{unix.AF_INET6, 0, unix.SOL_SOCKET, unix.SO_REUSEPORT, 4},
	{unix.AF_INET, 0, unix.SOL_SOCKET, unix.SO_BINDTODEVICE, 16},
	{unix.AF_INET6, 0, unix.SOL_SOCKET, unix.SO_BINDTODEVICE, 16},
	{unix.AF_INET6, 0, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 4},
	{unix.AF_INET6, 0, unix.IPPROTO_IPV6, unix.IPV6_RECVERR, 4},
	{unix.AF_INET6, 0, unix.IPPROTO_IPV6, unix.IPV6_RECVTCLASS, 4},
	{unix.AF_INET6, 0, unix.IPPROTO_IPV6, unix.IPV6_RECVHOPLIMIT, 4},
	{unix.AF_INET, 0, unix.IPPROTO_IP, unix.IP_RECVERR, 4},
	{unix.AF_INET, 0, unix.IPPROTO_IP, unix.IP_RECVTOS, 4},
	{unix.AF_INET, 0, unix.IPPROTO_IP, unix.IP_RECVTTL, 4},
	{unix.AF_INET6, 0, unix.IPPROTO_IPV6, unix.IPV6_RECVPKTINFO, 4},
	{unix.AF_INET, 0, unix.IPPROTO_IP, unix.IP_TTL, 4},
	{unix.AF_INET, 0, unix.IPPROTO_IP, unix.IP_TOS, 4},
	{unix.AF_INET, 0, unix.IPPROTO_IP, unix.IP_PKTINFO, 4},
	{unix.AF_INET, 0, unix.IPPROTO_IP, unix.IP_FREEBIND, 4},
	{unix.AF_INET, unix.SOCK_DGRAM, unix.IPPROTO_IP, unix.IP_MULTICAST_TTL, 4},
	{unix.AF_INET, unix.SOCK_DGRAM, unix.IPPROTO_IP, unix.IP_MULTICAST_LOOP, 4},
	{unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_TCP, unix.TCP_NODELAY, 4},
	{unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, 4},
	{unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_TCP, unix.TCP_KEEPINTVL, 4},
	{unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_TCP, unix.TCP_KEEPCNT, 4},
	{unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_TCP, unix.TCP_DEFER_ACCEPT, 4},
	{unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, 4},
}

func (o SocketOption) zero() bool {
	for _, b := range o.Value {
		if b != 0 {
			return false
		}
	}
	return true
}

// readSocket reads everything of a socket that a new one is to have.
func (p *Tracee) readSocket(k *SharedObjects, d *Descriptor) error {
	fd, err := p.borrow(d.Number)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	s := &SocketState{Inode: d.Inode}
	k.sockets[s.Inode] = true
	for name, to := range map[int]*int{unix.SO_DOMAIN: &s.Family, unix.SO_TYPE: &s.Type, unix.SO_PROTOCOL: &s.Protocol} {
		if *to, err = unix.GetsockoptInt(fd, unix.SOL_SOCKET, name); err != nil {
			return os.NewSyscallError("getsockopt", err)
		}
	}
	s.Local, s.Remote = address(fd, unix.SYS_GETSOCKNAME), address(fd, unix.SYS_GETPEERNAME)
	if err := s.readOptions(p, fd, d.Number); err != nil {
		return err
	}
	switch s.Family {
	case unix.AF_UNIX:
		err = p.readUnix(k, s, fd, d.Number)
	case unix.AF_INET, unix.AF_INET6:
		err = p.readInet(k, s, fd, d.Number)
	default:
		err = p.refuseSocket(d.Number, false, "of another family than unix and inet")
	}
	d.Socket = s
	return err
}

func (p *Tracee) refuseSocket(number int, retry bool, format string, args ...any) error {
	return p.refuse(retry, "has descriptor %d open on a socket %s", number, fmt.Sprintf(format, args...))
}

func address(fd int, call uintptr) []byte {
	var buf [128]byte
	size := uint32(len(buf))
	_, _, errno := syscall.RawSyscall(call, uintptr(fd), uintptr(unsafe.Pointer(&buf[0])), uintptr(unsafe.Pointer(&size)))
	if errno != 0 || int(size) > len(buf) {
		return nil
	}
	return buf[:size]
}

// readOptions reads those that are not zero.
func (s *SocketState) readOptions(p *Tracee, fd, number int) error {
	if n, err := getOption(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, nil); err == nil && n > 0 { // SO_GET_FILTER
		return p.refuseSocket(number, false, "with a packet filter")
	}
	for _, known := range optionsOf {
		family := s.Family == known.family || known.level == unix.IPPROTO_TCP && s.Family == unix.AF_INET6
		if known.family != 0 && !family || known.kind != 0 && known.kind != s.Type {
			continue
		}
		value := make([]byte, known.size)
		n, err := getOption(fd, known.level, known.name, value)
		if err != nil {
			continue // this kind of socket has no such option
		}
		o := SocketOption{known.level, known.name, value[:n]}
		if o.zero() && known.name != unix.IPV6_V6ONLY && known.name != unix.IP_MULTICAST_LOOP {
			continue
		}
		s.Options = append(s.Options, o)
	}
	// The kernel doubles what is set.
	for _, name := range []int{unix.SO_SNDBUF, unix.SO_RCVBUF} {
		size, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, name)
		if err != nil {
			return os.NewSyscallError("getsockopt", err)
		}
		if size != usualBuffer(s.Family, s.Type, name) {
			s.Options = append(s.Options, SocketOption{unix.SOL_SOCKET, name, binary.NativeEndian.AppendUint32(nil, uint32(size/2))})
		}
	}
	return nil
}

// usualBuffer is the size of a new socket's buffer. One that the process did not
// set goes on to be sized by the kernel.
func usualBuffer(family, kind, name int) int {
	fd, err := unix.Socket(family, kind|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0
	}
	defer unix.Close(fd)
	size, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, name)
	if err != nil {
		return 0
	}
	return size
}

func getOption(fd, level, name int, value []byte) (int, error) {
	size := uint32(len(value))
	var at unsafe.Pointer
	if len(value) > 0 {
		at = unsafe.Pointer(&value[0])
	}
	_, _, errno := syscall.RawSyscall6(unix.SYS_GETSOCKOPT, uintptr(fd), uintptr(level), uintptr(name), uintptr(at), uintptr(unsafe.Pointer(&size)), 0)
	if errno != 0 {
		return 0, errno
	}
	return int(size), nil
}

// readUnix keeps a unix socket, with what it has not read yet.
func (p *Tracee) readUnix(k *SharedObjects, s *SocketState, fd, number int) (err error) {
	if k.unix == nil {
		if k.unix, err = unixSockets(p.PID); err != nil {
			return err
		}
	}
	known, ok := k.unix[s.Inode]
	if !ok {
		return p.refuseSocket(number, false, "that is not of the cell's own network")
	}
	if err := p.readSocketFile(s, known, number); err != nil {
		return err
	}
	s.Listens, s.Shut = known.state == unix.BPF_TCP_LISTEN, known.shut
	if s.Listens {
		if s.Backlog = known.backlog; known.waiting > 0 {
			return p.refuseSocket(number, true, "that listens, with %d connections to accept", known.waiting)
		}
		return nil
	}
	const both = 3
	s.Peer = known.peer
	s.Orphan = known.hasPeer && known.peer == 0
	if s.Orphan && s.Type != unix.SOCK_DGRAM && s.Shut != both {
		return p.refuseSocket(number, true, "whose connection was not accepted yet")
	}
	if s.Queue, err = p.peekSocket(s, fd, number); err != nil {
		return err
	}
	if len(s.Queue) > 0 && !known.hasPeer {
		return p.refuseSocket(number, true, "with messages of several senders that were not received yet")
	}
	return nil
}

// readSocketFile keeps how the file may be used that a socket is bound to. That it
// is still there must be certain: by its name alone it is found again.
func (p *Tracee) readSocketFile(s *SocketState, known unixSocket, number int) error {
	name := s.Path()
	if name == "" || known.hasPeer && s.Type != unix.SOCK_DGRAM { // an accepted one has the name of another
		return nil
	}
	root, err := inroot.Open(fmt.Sprintf("/proc/%d/root", p.PID))
	if err != nil {
		return err
	}
	defer root.Close()
	dir, err := os.Readlink(fmt.Sprintf("/proc/%d/cwd", p.PID))
	if err != nil {
		return err
	}
	if !path.IsAbs(name) {
		name = path.Join(dir, name)
	}
	entry, err := root.Entry(name)
	if err != nil {
		return p.refuseSocket(number, false, "that was bound to %s, which is no longer there", s.Path())
	}
	defer entry.Close()
	var stat unix.Stat_t
	if err := unix.Fstat(int(entry.Fd()), &stat); err != nil {
		return os.NewSyscallError("fstat", err)
	}
	if stat.Mode&unix.S_IFMT != unix.S_IFSOCK || uint32(stat.Ino) != uint32(known.file.inode) {
		return p.refuseSocket(number, false, "that was bound to %s, which is another file now", s.Path())
	}
	s.Mode = stat.Mode & 0o7777
	return nil
}

// peekSocket reads what is in a unix socket and leaves it there.
func (p *Tracee) peekSocket(s *SocketState, fd, number int) (queue [][]byte, err error) {
	before, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PEEK_OFF)
	if err == nil {
		err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PEEK_OFF, 0)
	}
	if err != nil {
		return nil, os.NewSyscallError("peek", err)
	}
	defer func() {
		if back := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PEEK_OFF, before); back != nil && err == nil {
			err = os.NewSyscallError("setsockopt", back)
		}
	}()
	total := 0
	buf, control := make([]byte, 256<<10), make([]byte, 4096)
	for {
		n, oob, flags, _, err := unix.Recvmsg(fd, buf, control, unix.MSG_PEEK|unix.MSG_DONTWAIT|unix.MSG_CMSG_CLOEXEC)
		if err == unix.EAGAIN || err == unix.ECONNRESET || err == nil && n == 0 && s.Type == unix.SOCK_STREAM {
			break
		}
		if err == unix.EINVAL && s.Type != unix.SOCK_DGRAM {
			break // not connected
		}
		if err != nil {
			return nil, os.NewSyscallError("recvmsg", err)
		}
		if oob > 0 || flags&unix.MSG_CTRUNC != 0 {
			closeRights(control[:oob])
			return nil, p.refuseSocket(number, true, "with descriptors or credentials on their way through it")
		}
		if n == 0 {
			if s.Shut&1 != 0 {
				break
			}
			return nil, p.refuseSocket(number, true, "with empty messages that were not received yet")
		}
		if total += n; total > maxQueue || flags&unix.MSG_TRUNC != 0 {
			return nil, p.refuseSocket(number, true, "with too much that was not received yet")
		}
		queue = append(queue, append([]byte(nil), buf[:n]...))
	}
	if waiting, err := unix.IoctlGetInt(fd, unix.SIOCINQ); s.Type == unix.SOCK_STREAM && (err != nil || waiting != total) {
		return nil, p.refuseSocket(number, true, "of which not everything can be read")
	}
	return queue, nil
}

// closeRights closes descriptors that were looked at.
func closeRights(control []byte) {
	messages, err := unix.ParseSocketControlMessage(control)
	if err != nil {
		return
	}
	for _, m := range messages {
		if fds, err := unix.ParseUnixRights(&m); err == nil {
			for _, fd := range fds {
				unix.Close(fd)
			}
		}
	}
}
