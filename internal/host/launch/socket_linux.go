package launch

import (
	"errors"
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// SocketPair connects this program with one that is to be started: our end is a
// connection, theirs a file to hand over.
func SocketPair() (*net.UnixConn, *os.File, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	ours, theirs := os.NewFile(uintptr(fds[0]), "ours"), os.NewFile(uintptr(fds[1]), "theirs")
	conn, err := net.FileConn(ours)
	if err = errors.Join(err, ours.Close()); err != nil {
		return nil, nil, errors.Join(err, theirs.Close())
	}
	return conn.(*net.UnixConn), theirs, nil
}

// Rights is the message beside the bytes on a Unix socket that hands a file over,
// for net.UnixConn.WriteMsgUnix. The file stays the caller's.
func Rights(file *os.File) []byte { return unix.UnixRights(int(file.Fd())) }

// Received takes the file out of such a message.
func Received(rights []byte) (*os.File, error) {
	messages, err := unix.ParseSocketControlMessage(rights)
	if err != nil {
		return nil, os.NewSyscallError("recvmsg", err)
	}
	var all []int
	for i := range messages {
		fds, err := unix.ParseUnixRights(&messages[i])
		if err != nil {
			return nil, os.NewSyscallError("recvmsg", err)
		}
		all = append(all, fds...)
	}
	if len(all) != 1 {
		for _, fd := range all {
			unix.Close(fd)
		}
		return nil, fmt.Errorf("launch: %d files came where one was expected", len(all))
	}
	return os.NewFile(uintptr(all[0]), "received"), nil
}
