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

// Rights is the message beside the bytes on a Unix socket that hands files over,
// for net.UnixConn.WriteMsgUnix. The files stay the caller's.
func Rights(files ...*os.File) []byte {
	var fds []int
	for _, file := range files {
		fds = append(fds, descriptor(file))
	}
	return unix.UnixRights(fds...)
}

// descriptor is a file's. That which Fd gives of a connection's file waits from then on,
// in whichever program has it: none of them could end a read by closing it.
func descriptor(file *os.File) int {
	fd := -1 // of a closed file, which the kernel refuses
	if raw, err := file.SyscallConn(); err == nil {
		_ = raw.Control(func(number uintptr) { fd = int(number) })
	}
	return fd
}

// Received takes the file out of such a message.
func Received(rights []byte) (*os.File, error) {
	files, err := ReceivedAll(rights)
	if err == nil && len(files) != 1 {
		err = fmt.Errorf("launch: %d files came where one was expected", len(files))
		for _, file := range files {
			err = errors.Join(err, file.Close())
		}
	}
	if err != nil {
		return nil, err
	}
	return files[0], nil
}

// ReceivedAll takes all files out of such a message.
func ReceivedAll(rights []byte) (files []*os.File, err error) {
	messages, err := unix.ParseSocketControlMessage(rights)
	if err != nil {
		return nil, os.NewSyscallError("recvmsg", err)
	}
	for i := range messages {
		fds, err := unix.ParseUnixRights(&messages[i])
		if err != nil {
			return files, os.NewSyscallError("recvmsg", err)
		}
		for _, fd := range fds {
			files = append(files, os.NewFile(uintptr(fd), "received"))
		}
	}
	return files, nil
}
