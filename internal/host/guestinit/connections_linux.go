package guestinit

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"
)

// Requests of sock_diag(7) and the layout of theirs and of the answers: a header, what is
// asked for or found, and 48 bytes that tell a socket from all others.
const (
	findSockets   = 20 // SOCK_DIAG_BY_FAMILY
	destroySocket = 21 // SOCK_DESTROY

	socketIDSize   = 48
	requestSize    = 8 + socketIDSize
	foundIDAt      = 4                                                      // in an answer
	sourceAt       = 4                                                      // in the id
	openConnection = 1<<1 | 1<<2 | 1<<3 | 1<<4 | 1<<5 | 1<<8 | 1<<9 | 1<<11 // all states but listening and over
)

// CloseConnections ends every TCP connection of the machine that is not one with itself:
// programs find them aborted. A kernel that cannot do it leaves them to time out.
func CloseConnections() error {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if errors.Is(err, unix.EPROTONOSUPPORT) {
		return nil
	}
	if err != nil {
		return os.NewSyscallError("socket", err)
	}
	defer unix.Close(fd)
	for _, family := range []byte{unix.AF_INET, unix.AF_INET6} {
		found, err := connections(fd, family)
		if errors.Is(err, unix.ENOENT) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("machine: find connections: %w", err)
		}
		for _, id := range found {
			// One that has ended meanwhile is not there.
			if err := diagnose(fd, destroySocket, unix.NLM_F_ACK, family, id, nil); err != nil && !errors.Is(err, unix.ENOENT) {
				return fmt.Errorf("machine: end a connection: %w", err)
			}
		}
	}
	return nil
}

// connections are the ids of those that are not with the machine itself.
func connections(fd int, family byte) (found [][]byte, err error) {
	err = diagnose(fd, findSockets, unix.NLM_F_DUMP, family, nil, func(answer []byte) {
		if len(answer) < foundIDAt+socketIDSize {
			return
		}
		id := answer[foundIDAt:][:socketIDSize]
		size := 4
		if family == unix.AF_INET6 {
			size = 16
		}
		if source, ok := netip.AddrFromSlice(id[sourceAt:][:size]); ok && !source.Unmap().IsLoopback() {
			found = append(found, append([]byte{}, id...))
		}
	})
	return found, err
}

// diagnose sends a request and reads the answers to it.
func diagnose(fd int, kind, flags uint16, family byte, id []byte, take func(answer []byte)) error {
	message := binary.NativeEndian.AppendUint32(nil, unix.SizeofNlMsghdr+requestSize)
	message = binary.NativeEndian.AppendUint16(message, kind)
	message = binary.NativeEndian.AppendUint16(message, unix.NLM_F_REQUEST|flags)
	message = append(message, make([]byte, 8)...)
	message = append(message, family, unix.IPPROTO_TCP, 0, 0)
	message = binary.NativeEndian.AppendUint32(message, openConnection)
	message = append(message, id...)
	message = append(message, make([]byte, socketIDSize-len(id))...)
	if err := unix.Sendto(fd, message, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return os.NewSyscallError("sendto", err)
	}
	for {
		ended, err := answers(fd, take)
		if ended || err != nil {
			return err
		}
	}
}

// answers reads some, and says whether they were the last.
func answers(fd int, take func(answer []byte)) (ended bool, err error) {
	buffer := make([]byte, 32<<10)
	n, _, err := unix.Recvfrom(fd, buffer, 0)
	if err != nil {
		return false, os.NewSyscallError("recvfrom", err)
	}
	for rest := buffer[:n]; len(rest) >= unix.SizeofNlMsghdr; {
		size := int(binary.NativeEndian.Uint32(rest))
		if size < unix.SizeofNlMsghdr || size > len(rest) {
			return false, unix.EBADMSG
		}
		body := rest[unix.SizeofNlMsghdr:size]
		switch kind := binary.NativeEndian.Uint16(rest[4:]); {
		case kind == unix.NLMSG_DONE:
			return true, nil
		case kind == unix.NLMSG_ERROR && len(body) >= 4:
			if number := -int32(binary.NativeEndian.Uint32(body)); number != 0 {
				return true, unix.Errno(number)
			}
			return true, nil
		case kind == findSockets && take != nil:
			take(body)
		}
		rest = rest[min((size+3)&^3, len(rest)):]
	}
	return false, nil
}
