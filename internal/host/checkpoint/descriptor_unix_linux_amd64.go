package checkpoint

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// unixSocket is what the kernel tells of a unix socket by its inode.
type unixSocket struct {
	state   int
	hasPeer bool
	peer    uint64 // its inode: 0 if it has none, closed or not accepted yet
	file    fileID // that it is bound to, or zero
	waiting int    // bytes, or connections for one that listens
	backlog int
	shut    int // directions that are shut down, 1 for reading, 2 for writing
}

// Requests and attributes of unix_diag.
const (
	diagShow      = 0x2 | 0x4 | 0x10
	diagVFS       = 1
	diagPeer      = 2
	diagQueue     = 4
	diagShutdown  = 6
	diagHead      = 16
	maxUnixSocket = 1 << 16
)

// unixSockets asks the kernel for all unix sockets of a process's net namespace.
func unixSockets(pid int) (map[uint64]unixSocket, error) {
	fd, err := diagSocket(pid)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	const headerSize = 16
	request := make([]byte, headerSize, headerSize+24)
	binary.NativeEndian.PutUint32(request, headerSize+24)
	binary.NativeEndian.PutUint16(request[4:], unix.SOCK_DIAG_BY_FAMILY)
	binary.NativeEndian.PutUint16(request[6:], unix.NLM_F_REQUEST|unix.NLM_F_DUMP)
	request = append(request, unix.AF_UNIX, 0, 0, 0)
	for _, word := range []uint32{^uint32(0), 0, diagShow, 0, 0} { // states, inode, show, cookie
		request = binary.NativeEndian.AppendUint32(request, word)
	}
	if err := unix.Sendto(fd, request, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return nil, os.NewSyscallError("sendto", err)
	}
	found, buf := map[uint64]unixSocket{}, make([]byte, 64<<10)
	for {
		n, _, err := unix.Recvfrom(fd, buf, 0)
		if err != nil {
			return nil, os.NewSyscallError("recvfrom", err)
		}
		if done, err := parseUnixSockets(buf[:n], found); done || err != nil {
			return found, err
		}
	}
}

// diagSocket makes a socket to ask with, on a thread that goes to that net namespace and comes
// back. To end it there would not do: the first thread of a program never ends, and would be
// in another's net namespace for good, by which others know this program's own.
func diagSocket(pid int) (fd int, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		var away error
		if fd, err, away = diagSocketThere(pid); away == nil {
			runtime.UnlockOSThread()
			return
		}
		err = errors.Join(err, away, unix.Close(fd)) // and the thread ends
	}()
	<-done
	return fd, err
}

// diagSocketThere goes with the thread that calls it, and says whether that is still away.
func diagSocketThere(pid int) (fd int, err, away error) {
	home, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		return -1, err, nil
	}
	defer home.Close()
	pidfd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return -1, os.NewSyscallError("pidfd_open", err), nil
	}
	defer unix.Close(pidfd)
	if err := unix.Setns(pidfd, unix.CLONE_NEWNET); err != nil {
		return -1, os.NewSyscallError("setns", err), nil
	}
	fd, err = unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	return fd, os.NewSyscallError("socket", err), os.NewSyscallError("setns", unix.Setns(int(home.Fd()), unix.CLONE_NEWNET))
}

// parseUnixSockets reads messages of the kernel, and says whether the last one is
// among them.
func parseUnixSockets(data []byte, found map[uint64]unixSocket) (done bool, err error) {
	bad := errors.New("checkpoint: an answer about sockets cannot be read")
	messages, err := syscall.ParseNetlinkMessage(data)
	if err != nil {
		return false, errors.Join(bad, err)
	}
	for _, m := range messages {
		switch m.Header.Type {
		case unix.NLMSG_DONE:
			return true, nil
		case unix.NLMSG_ERROR:
			if len(m.Data) < 4 {
				return false, bad
			}
			return false, fmt.Errorf("checkpoint: ask about sockets: %w", unix.Errno(-int32(binary.NativeEndian.Uint32(m.Data))))
		case unix.SOCK_DIAG_BY_FAMILY:
			if len(m.Data) < diagHead || len(found) == maxUnixSocket {
				return false, bad
			}
			found[uint64(binary.NativeEndian.Uint32(m.Data[4:]))] = parseUnixSocket(m.Data)
		}
	}
	return false, nil
}

func parseUnixSocket(body []byte) (s unixSocket) {
	s.state = int(body[2])
	for rest := body[diagHead:]; len(rest) >= 4; {
		size, kind := int(binary.NativeEndian.Uint16(rest)), binary.NativeEndian.Uint16(rest[2:])
		if size < 4 || size > len(rest) {
			break
		}
		value := rest[4:size]
		switch {
		case kind == diagPeer && len(value) >= 4:
			s.hasPeer, s.peer = true, uint64(binary.NativeEndian.Uint32(value))
		case kind == diagVFS && len(value) >= 8:
			s.file = fileID{uint64(binary.NativeEndian.Uint32(value[4:])), uint64(binary.NativeEndian.Uint32(value))}
		case kind == diagQueue && len(value) >= 8:
			s.waiting, s.backlog = int(binary.NativeEndian.Uint32(value)), int(binary.NativeEndian.Uint32(value[4:]))
		case kind == diagShutdown && len(value) >= 1:
			s.shut = int(value[0])
		}
		rest = rest[min((size+3)&^3, len(rest)):]
	}
	return s
}
