package checkpoint

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

const (
	// firstReceived is the number of the first descriptor that a process receives.
	firstReceived  = 3
	lastDescriptor = 0xffffffff
	// highestDescriptor bounds the numbers of descriptors.
	highestDescriptor = 1 << 16

	receiveFlags = unix.MSG_CMSG_CLOEXEC | unix.MSG_DONTWAIT
)

// gather collects what the process is sent: its program, its descriptors and the
// files of its shared mappings.
func (p *restoring) gather() error {
	if len(p.Files) != len(p.Process.Descriptors) || len(p.MappingFiles) != len(p.Process.Mappings) || len(p.Children) != len(p.Process.Children) {
		return fmt.Errorf("checkpoint: a restore of %d descriptors, %d mappings and %d children is given %d, %d and %d",
			len(p.Process.Descriptors), len(p.Process.Mappings), len(p.Process.Children), len(p.Files), len(p.MappingFiles), len(p.Children))
	}
	if p.Program != nil {
		if err := p.gatherFile(p.Program); err != nil {
			return err
		}
	}
	for i, d := range p.Process.Descriptors {
		if d.Number < 0 || d.Number >= highestDescriptor || i >= highestDescriptor {
			return fmt.Errorf("checkpoint: descriptor %d is over %d", d.Number, highestDescriptor)
		}
		if err := p.gatherFile(p.Files[i]); err != nil {
			return err
		}
	}
	for _, f := range p.MappingFiles {
		if err := p.gatherFile(f); err != nil {
			return err
		}
	}
	return nil
}

// gatherFile avoids File.Fd, which would make the descriptor block.
func (p *restoring) gatherFile(f *os.File) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	return raw.Control(func(fd uintptr) { p.files = append(p.files, int(fd)) })
}

// Send sends what the processes receive, in the order in which they do: children
// before their parents.
func (r *Restore) Send(send func(fds []int) error) error {
	p := r.first
	if terminal := p.earlyTerminal(); terminal != nil {
		if err := sendFile(send, terminal); err != nil {
			return err
		}
	}
	return p.send(send, r.walker.Memory == nil)
}

// send sends what the process and those below it receive. pages says that the
// process takes its memory from a file.
func (p *restoring) send(send func(fds []int) error, pages bool) error {
	for _, child := range p.children {
		if err := child.send(send, true); err != nil {
			return err
		}
	}
	if pages {
		if err := sendFile(send, p.Process.Pages); err != nil {
			return err
		}
	}
	return send(p.files)
}

func sendFile(send func(fds []int) error, f *os.File) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	controlled := raw.Control(func(fd uintptr) { err = send([]int{int(fd)}) })
	return errors.Join(controlled, err)
}

// placeDescriptors appends the moving of what was received to its numbers: first out
// of the way of each other, then into place.
func (p *restoring) placeDescriptors() {
	s, list, received := p.steps, p.Process.Descriptors, firstReceived
	if p.Program != nil {
		p.Process.State.SetMM(s.Script, received)
		received++
	}
	p.mapShared(received + len(list))
	aside := received + len(list) + len(p.MappingFiles)
	for _, d := range list {
		aside = max(aside, d.Number+1)
	}
	for i := range list {
		s.Call(unix.SYS_DUP3, uintptr(received+i), uintptr(aside+i), unix.O_CLOEXEC)
	}
	s.Call(unix.SYS_CLOSE_RANGE, 0, uintptr(aside-1), 0)
	for i, d := range list {
		s.Call(unix.SYS_DUP3, uintptr(aside+i), uintptr(d.Number), uintptr(d.Flags&unix.O_CLOEXEC))
	}
	s.Call(unix.SYS_CLOSE_RANGE, uintptr(aside), lastDescriptor, 0)
	for _, d := range list {
		for _, lock := range d.processLocks() {
			lock.appendTo(s.Script, d.Number)
		}
	}
	for _, d := range list {
		p.addWatches(d)
	}
	if p.Terminal >= 0 && p.Process.Place.Session == p.Process.HostPID {
		s.Call(unix.SYS_IOCTL, uintptr(p.Terminal), unix.TIOCSCTTY, 0)
		p.setForeground()
	}
}

// mapShared appends the mapping of the files that were received from first on. They
// are closed with what else has no place.
func (p *restoring) mapShared(first int) {
	s := p.steps
	for i, m := range p.Process.Mappings {
		s.Call(unix.SYS_MMAP, uintptr(m.Start), uintptr(m.Size), m.Protection, unix.MAP_SHARED|unix.MAP_FIXED_NOREPLACE,
			uintptr(first+i), uintptr(m.Offset))
		for _, advice := range m.Advice {
			s.Call(unix.SYS_MADVISE, uintptr(m.Start), uintptr(m.Size), uintptr(advice)).MayFail()
		}
	}
}

// addWatches appends what an epoll set watches.
func (p *restoring) addWatches(d Descriptor) {
	for _, w := range d.Watches {
		event, mem := p.steps.Bytes(16)
		binary.NativeEndian.PutUint32(mem, w.Events)
		binary.NativeEndian.PutUint64(mem[4:], w.Data) // the structure is packed
		p.steps.Call(unix.SYS_EPOLL_CTL, uintptr(d.Number), unix.EPOLL_CTL_ADD, uintptr(w.Number), event)
	}
}

// earlyTerminal is the controlling terminal, if the process must have it before its
// descriptors: its children inherit it.
func (p *restoring) earlyTerminal() *os.File {
	if len(p.children) == 0 {
		return nil
	}
	for i, d := range p.Process.Descriptors {
		if d.Number == p.Terminal {
			return p.Files[i]
		}
	}
	return nil
}

// takeTerminalEarly appends the taking of the controlling terminal by the first
// process, before it has children.
func (p *restoring) takeTerminalEarly() {
	if p.earlyTerminal() == nil {
		return
	}
	p.steps.Receive(p.walker.Socket, 1, receiveFlags)
	p.steps.Call(unix.SYS_IOCTL, firstReceived, unix.TIOCSCTTY, 0)
	p.steps.Call(unix.SYS_CLOSE_RANGE, firstReceived, lastDescriptor, 0)
}

// setForeground appends the choice of the process group that the terminal listens
// to. All of them are there by now.
func (p *restoring) setForeground() {
	if p.Foreground == 0 {
		return
	}
	number, mem := p.steps.Bytes(8)
	binary.NativeEndian.PutUint32(mem, uint32(p.Foreground))
	p.steps.Call(unix.SYS_IOCTL, uintptr(p.Terminal), unix.TIOCSPGRP, number)
}
