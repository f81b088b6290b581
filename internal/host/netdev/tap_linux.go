package netdev

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"syscall"

	"aether/internal/host/spawn"

	"golang.org/x/sys/unix"
)

const tunDevice = "/dev/net/tun"

// Flags of an arpreq (ATF_COM, ATF_PERM), and sizes of the kernel's structs.
const (
	known     = 2
	permanent = 4

	ifreqSize   = 40
	arpreqSize  = 68
	rtentrySize = 120
	msghdrSize  = 56
)

// Open makes the device in the net namespace at the end of a way, and gives the end for
// this program: a file that is read and written a packet at a time.
//
// Errors: spawn.Failure names the step that the kernel refused.
func (t Tap) Open(way Way) (*os.File, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("netdev: %w", os.NewSyscallError("socketpair", err))
	}
	defer unix.Close(pair[0])
	err = spawn.Hidden(func() error {
		err := t.make(way, pair[1])
		if errors.Is(err, unix.EACCES) || errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENODEV) {
			err = t.makeVeth(way, pair[1])
		}
		return err
	})
	unix.Close(pair[1])
	if err != nil {
		return nil, fmt.Errorf("netdev: %w", err)
	}
	return receive(pair[0])
}

// make has a child make the device and send its descriptor.
func (t Tap) make(way Way, socket int) error {
	s, err := spawn.NewScript(8 << 10)
	if err != nil {
		return err
	}
	s.TellParted()
	// Inside, others may see a process whose memory is still this program's.
	s.Call(unix.SYS_PRCTL, unix.PR_SET_DUMPABLE, 0)
	way.enter(s)
	here := unix.AT_FDCWD
	number(s, s.Call(unix.SYS_OPENAT, uintptr(here), s.String(tunDevice), unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0), tunFd)
	s.Call(unix.SYS_IOCTL, tunFd, unix.TUNSETIFF, t.request(s, unix.IFF_TAP|unix.IFF_NO_PI|unix.IFF_VNET_HDR))
	s.Call(unix.SYS_IOCTL, tunFd, unix.TUNSETOFFLOAD, unix.TUN_F_CSUM)
	t.configure(s)
	s.Call(unix.SYS_SENDMSG, uintptr(socket), rightsMessage(s, tunFd), 0)
	s.Exit()
	return walk(s, nil)
}

// Numbers of the child's descriptors, which is in a table of its own by then.
const (
	tunFd = iota
	inetFd
)

// number gives what a step has opened a number of its own.
func number(s *spawn.Script, opened spawn.Step, fd uintptr) {
	opened.Into(s.Call(unix.SYS_DUP3, 0, fd, unix.O_CLOEXEC), 0)
}

// walk runs a script whose process ends when it has made all steps. What it has written
// is there for seen, and not afterwards.
func walk(s *spawn.Script, seen func() error) error {
	started, err := s.Start(0, -1)
	if err != nil {
		return errors.Join(err, s.Free())
	}
	p, err := started.Await()
	if err == nil {
		_, err = p.Wait()
	}
	if seen != nil {
		err = cmp.Or(seen(), err)
	}
	return errors.Join(err, started.Done())
}

// configure appends what gives the device its addresses and the way to everything else.
func (t Tap) configure(s *spawn.Script) {
	number(s, s.Call(unix.SYS_SOCKET, unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0), inetFd)
	t.address(s, func(request, argument uintptr) { s.Call(unix.SYS_IOCTL, inetFd, request, argument) })
}

// rightsMessage is the address of a msghdr that hands one descriptor over.
func rightsMessage(s *spawn.Script, fd uint32) uintptr {
	data, _ := s.Bytes(8)
	vector, mem := s.Bytes(16)
	binary.NativeEndian.PutUint64(mem, uint64(data))
	binary.NativeEndian.PutUint64(mem[8:], 1)
	control, mem := s.Bytes(unix.CmsgSpace(4))
	binary.NativeEndian.PutUint64(mem, uint64(unix.CmsgLen(4)))
	binary.NativeEndian.PutUint32(mem[8:], unix.SOL_SOCKET)
	binary.NativeEndian.PutUint32(mem[12:], unix.SCM_RIGHTS)
	binary.NativeEndian.PutUint32(mem[16:], fd)
	message, mem := s.Bytes(msghdrSize)
	binary.NativeEndian.PutUint64(mem[16:], uint64(vector))
	binary.NativeEndian.PutUint64(mem[24:], 1)
	binary.NativeEndian.PutUint64(mem[32:], uint64(control))
	binary.NativeEndian.PutUint64(mem[40:], uint64(unix.CmsgLen(4)))
	return message
}

// receive takes the descriptor that a child has sent, which has ended since.
func receive(socket int) (*os.File, error) {
	rights := make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := unix.Recvmsg(socket, make([]byte, 1), rights, unix.MSG_CMSG_CLOEXEC|unix.MSG_DONTWAIT)
	if err != nil {
		return nil, fmt.Errorf("netdev: %w", os.NewSyscallError("recvmsg", err))
	}
	messages, err := unix.ParseSocketControlMessage(rights[:n])
	if err != nil || len(messages) != 1 {
		return nil, fmt.Errorf("netdev: no descriptor came: %w", errors.Join(err, syscall.EBADMSG))
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != 1 {
		return nil, fmt.Errorf("netdev: no descriptor came: %w", errors.Join(err, syscall.EBADMSG))
	}
	return os.NewFile(uintptr(spawn.Aside(fds[0])), "tap"), nil
}
