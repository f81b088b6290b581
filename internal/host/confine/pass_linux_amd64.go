package confine

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// gather collects the descriptors that the child is sent.
func (b *birth) gather() error {
	if len(b.Descriptors) > maxDescriptors {
		return fmt.Errorf("%d descriptors are more than %d", len(b.Descriptors), maxDescriptors)
	}
	if b.Program != nil {
		if err := b.add(b.Program); err != nil {
			return err
		}
	}
	for _, d := range b.Descriptors {
		if d.Number < 0 || d.Number >= maxDescriptors {
			return fmt.Errorf("descriptor %d is over %d", d.Number, maxDescriptors)
		}
		if err := b.add(d.File); err != nil {
			return err
		}
	}
	for _, m := range b.Mappings {
		if err := b.add(m.File); err != nil {
			return err
		}
	}
	return nil
}

// add avoids File.Fd, which would make the descriptor block.
func (b *birth) add(f *os.File) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	return raw.Control(func(fd uintptr) { b.files = append(b.files, int(fd)) })
}

// sendAll sends what the script receives: to who joins the cell, unless somebody
// has, what it takes for that, and to the child its own.
func (b *birth) sendAll() error {
	if b.spare == nil {
		if err := b.root.sendCell(b.newcomer()); err != nil {
			return err
		}
	}
	return b.sendFamily()
}

// sendCell sends what is to be joined.
func (t *Twin) sendCell(n newcomer) error {
	return n.cell.withTarget(n.group, func(cell target) error {
		files := append([]int{cell.pidfd}, n.group.Files...)
		if n.group.Into >= 0 {
			files = append(files, n.group.Into, cell.cgroupns)
		}
		return t.send(files)
	})
}

// Numbers that the cell's descriptor and those of groups have once received.
const (
	sentCell = 3 + iota
	sentGroups
)

// sendFamily sends in the order in which processes receive: children first.
func (b *birth) sendFamily() error {
	if terminal := b.early(); terminal != nil {
		if err := b.root.sendFile(terminal); err != nil {
			return err
		}
	}
	for _, child := range b.below {
		if err := child.sendMember(); err != nil {
			return err
		}
	}
	if b.root.recalled {
		if err := b.root.sendFile(b.root.saved); err != nil {
			return err
		}
	}
	return b.root.send(b.files)
}

func (b *birth) sendMember() error {
	for _, child := range b.below {
		if err := child.sendMember(); err != nil {
			return err
		}
	}
	if err := b.root.sendFile(b.twin.saved); err != nil {
		return err
	}
	return b.root.send(b.files)
}

func (t *Twin) sendFile(f *os.File) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	controlled := raw.Control(func(fd uintptr) { err = t.send([]int{int(fd)}) })
	return errors.Join(controlled, err)
}

func (t *Twin) send(files []int) error {
	for len(files) > 0 {
		n := min(len(files), perMessage)
		if err := unix.Sendmsg(int(t.socket.Fd()), []byte{0}, unix.UnixRights(files[:n]...), nil, unix.MSG_DONTWAIT); err != nil {
			return os.NewSyscallError("sendmsg", err)
		}
		files = files[n:]
	}
	return nil
}

// perMessage is how many descriptors the kernel passes at once.
const perMessage = 253

// receive appends the taking of so many descriptors, which get the lowest
// numbers.
func (s script) receive(count int) {
	for left := count; left > 0; left -= perMessage {
		n := min(left, perMessage)
		data, _ := s.Bytes(8)
		vector, v := s.Bytes(16)
		binary.NativeEndian.PutUint64(v, uint64(data))
		binary.NativeEndian.PutUint64(v[8:], 1)
		space := unix.CmsgSpace(4 * n)
		control, _ := s.Bytes(space)
		head, h := s.Bytes(56)
		binary.NativeEndian.PutUint64(h[16:], uint64(vector))
		binary.NativeEndian.PutUint64(h[24:], 1)
		binary.NativeEndian.PutUint64(h[32:], uint64(control))
		binary.NativeEndian.PutUint64(h[40:], uint64(space))
		s.Call(unix.SYS_RECVMSG, passFd, head, unix.MSG_CMSG_CLOEXEC|unix.MSG_DONTWAIT)
	}
}

// terminal appends the taking of the controlling terminal by the first process:
// before it has children, for these inherit it.
func (b *birth) terminal() {
	if b.early() == nil {
		return
	}
	b.receive(1)
	b.Call(unix.SYS_IOCTL, 3, unix.TIOCSCTTY, 0)
	b.closeFrom(3)
}

// early is the terminal, if it is needed early.
func (b *birth) early() *os.File {
	if len(b.below) == 0 {
		return nil
	}
	for _, d := range b.Descriptors {
		if d.Number == b.Terminal {
			return d.File
		}
	}
	return nil
}
