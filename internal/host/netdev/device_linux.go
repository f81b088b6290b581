package netdev

import (
	"errors"
	"io"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// Device is this program's end of a tap: Ethernet frames, one at a time.
type Device struct {
	file *os.File
	raw  syscall.RawConn
}

// NewDevice takes the file that Open gave, of which it closes nothing but that.
func NewDevice(file *os.File) (*Device, error) {
	raw, err := file.SyscallConn()
	if err != nil {
		return nil, err
	}
	return &Device{file: file, raw: raw}, nil
}

// Close ends Read and Write, also those that wait.
func (d *Device) Close() error { return d.file.Close() }

// Read gives every frame that comes to take, which does not keep it, until the device ends.
func (d *Device) Read(take func(frame []byte)) (err error) {
	waited := d.raw.Read(func(fd uintptr) (ended bool) {
		buffer := packets.Get().(*[]byte)
		defer packets.Put(buffer)
		for {
			n, failed := unix.Read(int(fd), (*buffer)[:MaxPacket])
			switch {
			case errors.Is(failed, unix.EINTR):
			case errors.Is(failed, unix.EAGAIN):
				return false
			case failed != nil:
				err = os.NewSyscallError("read", failed)
				return true
			case n == 0:
				err = io.EOF
				return true
			default:
				take((*buffer)[min(HeaderSize, n):n])
			}
		}
	})
	return errors.Join(err, waited)
}

// Write sends a frame of several pieces. A device that has no room, or is not up, drops
// it, as networks do.
func (d *Device) Write(sum Checksum, pieces [][]byte) (err error) {
	header := headerOf(sum)
	vector := make([][]byte, 0, 8)
	vector = append(append(vector, header[:]), pieces...)
	waited := d.raw.Write(func(fd uintptr) bool {
		_, err = unix.Writev(int(fd), vector)
		return true
	})
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EIO) || errors.Is(err, unix.EINTR) {
		return nil
	}
	return errors.Join(err, waited)
}
