package netdev

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// OpenHere makes the device in this program's own net namespace: for the init of a
// machine, which has the machine to itself. Version 6 is turned off for it.
func (t Tap) OpenHere() (*os.File, error) {
	file, err := t.openHere()
	if err != nil {
		return nil, fmt.Errorf("netdev: %s: %w", t.Name, err)
	}
	return file, nil
}

func (t Tap) openHere() (_ *os.File, err error) {
	fd, err := unix.Open(tunDevice, unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: tunDevice, Err: err}
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, unix.Close(fd))
		}
	}()
	var m ownMemory
	if err := m.ioctl(fd, unix.TUNSETIFF, t.request(&m, unix.IFF_TAP|unix.IFF_NO_PI|unix.IFF_VNET_HDR)); err != nil {
		return nil, err
	}
	if err := m.ioctl(fd, unix.TUNSETOFFLOAD, unix.TUN_F_CSUM); err != nil {
		return nil, err
	}
	if err := os.WriteFile("/proc/sys/net/ipv6/conf/"+t.Name+"/disable_ipv6", []byte("1"), 0); err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	inet, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	defer unix.Close(inet)
	var failed error
	t.address(&m, func(request, argument uintptr) {
		if failed == nil {
			failed = m.ioctl(inet, request, argument)
		}
	})
	if failed != nil {
		return nil, failed
	}
	return os.NewFile(uintptr(fd), "tap"), nil
}

// ownMemory keeps what the kernel is given addresses of.
type ownMemory struct{ kept [][]byte }

// Bytes implements memory.
func (m *ownMemory) Bytes(size int) (uintptr, []byte) {
	mem := make([]byte, size)
	m.kept = append(m.kept, mem)
	return uintptr(unsafe.Pointer(&mem[0])), mem
}

// String implements memory.
func (m *ownMemory) String(text string) uintptr {
	at, mem := m.Bytes(len(text) + 1)
	copy(mem, text)
	return at
}

func (m *ownMemory) ioctl(fd int, request, argument uintptr) error {
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), request, argument)
	runtime.KeepAlive(m) // of which the argument is an address
	if errno != 0 {
		return fmt.Errorf("ioctl %#x: %w", request, errno)
	}
	return nil
}

// Send writes the packets of a device to a stream until either ends. A stream that takes
// nothing has the device wait, which drops what it has no room for.
func Send(device *os.File, to io.Writer) error {
	raw, err := device.SyscallConn()
	if err != nil {
		return err
	}
	// Room for a few of the longest: a stream has its costs for every write.
	buffer := make([]byte, 0, 4*(MaxPacket+lengthSize))
	for {
		list, err := someOf(raw, buffer)
		if err != nil {
			return err
		}
		if _, err := to.Write(list); err != nil {
			return err
		}
	}
}

// someOf waits for a packet, and gives it with those that are there already and have room
// in the buffer, each behind its length.
func someOf(raw syscall.RawConn, buffer []byte) (list []byte, err error) {
	list = buffer[:0]
	waited := raw.Read(func(fd uintptr) (ended bool) {
		for cap(list)-len(list) >= lengthSize+MaxPacket {
			at := len(list) + lengthSize
			n, failed := unix.Read(int(fd), list[at:at+MaxPacket])
			switch {
			case errors.Is(failed, unix.EINTR):
			case errors.Is(failed, unix.EAGAIN):
				return len(list) > 0
			case failed != nil:
				err = os.NewSyscallError("read", failed)
				return true
			default:
				list = appendLength(list, n)[:at+n]
			}
		}
		return true
	})
	return list, errors.Join(err, waited)
}

// Receive writes the packets of a stream to a device until either ends. One that has no
// room, or is not up, drops them.
func Receive(from io.Reader, device *os.File) error {
	raw, err := device.SyscallConn()
	if err != nil {
		return err
	}
	var gone error
	err = readPackets(from, func(packet []byte) {
		waited := raw.Write(func(fd uintptr) bool {
			_, _ = unix.Write(int(fd), packet)
			return true
		})
		if gone == nil {
			gone = waited
		}
	})
	return errors.Join(gone, err)
}
