package nat

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Names are the sockets for the sandbox's questions about names: one of datagrams, and
// one that takes connections. Only what comes by the sandbox's device gets there.
func (p *Port) Names() (datagrams, connections *os.File, err error) {
	err = p.router.namespace.Do(func() (err error) {
		if datagrams, err = p.listen(unix.SOCK_DGRAM); err != nil {
			return err
		}
		connections, err = p.listen(unix.SOCK_STREAM)
		return err
	})
	if err != nil && datagrams != nil {
		err = errors.Join(err, datagrams.Close())
	}
	return datagrams, connections, err
}

func (p *Port) listen(kind int) (*os.File, error) {
	fd, err := unix.Socket(unix.AF_INET, kind|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	file := os.NewFile(uintptr(fd), "questions of "+p.name)
	err = unix.BindToDevice(fd, p.name)
	if err == nil {
		err = unix.Bind(fd, &unix.SockaddrInet4{Port: dnsPort, Addr: p.router.gateway.As4()})
	}
	if err == nil && kind == unix.SOCK_STREAM {
		err = unix.Listen(fd, 16)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("nat: %w", err), file.Close())
	}
	return file, nil
}
