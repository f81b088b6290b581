package checkpoint

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"

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

// gather collects what the process and those below it are sent: program, descriptors
// and files of mappings.
func (p *RestoreSpec) gather() error {
	files := slices.Concat(p.Files, p.MappingFiles, p.LayerFiles)
	if p.Program != nil {
		files = slices.Insert(files, 0, p.Program)
	}
	for _, f := range files {
		// Not by File.Fd, which would make the descriptor block.
		raw, err := f.SyscallConn()
		if err == nil {
			err = raw.Control(func(fd uintptr) { p.fds = append(p.fds, int(fd)) })
		}
		if err != nil {
			return err
		}
	}
	for _, d := range p.Process.Descriptors {
		if d.Number < 0 || d.Number >= highestDescriptor {
			return fmt.Errorf("checkpoint: descriptor %d is over %d", d.Number, highestDescriptor)
		}
	}
	for _, child := range p.Children {
		if err := child.gather(); err != nil {
			return err
		}
	}
	return nil
}

// Send sends what the processes receive, in the order in which they do: children
// before their parents.
func (r *Restore) Send(send func(fds []int) error) error {
	if terminal := r.first.earlyTerminal(); terminal != nil {
		if err := sendFile(send, terminal); err != nil {
			return err
		}
	}
	return r.first.send(send, r.walker.Memory == nil)
}

// send sends what the process and those below it receive. pages says that the
// process takes its memory from a file.
func (p *RestoreSpec) send(send func(fds []int) error, pages bool) error {
	for _, child := range p.Children {
		if err := child.send(send, true); err != nil {
			return err
		}
	}
	if pages {
		if err := sendFile(send, p.Process.Pages); err != nil {
			return err
		}
	}
	return send(p.fds)
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
func (r *Restore) placeDescriptors(p *RestoreSpec) {
	s, list, received := r.steps, p.Process.Descriptors, firstReceived
	if p.Program != nil {
		p.Process.State.SetMM(s.Script, received)
		received++
	}
	r.mapShared(p.Process, received+len(list))
	r.mapLayered(p, received+len(list)+len(p.MappingFiles))
	aside := received + len(list) + len(p.MappingFiles) + len(p.LayerFiles)
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
		r.addWatches(d)
	}
	if p.Terminal >= 0 && p.Process.Place.Session == p.Process.HostPID {
		s.Call(unix.SYS_IOCTL, uintptr(p.Terminal), unix.TIOCSCTTY, 0)
		r.setForeground(p)
	}
}

// mapShared appends the mapping of the files that were received from first on. They
// are closed with what else has no place.
func (r *Restore) mapShared(p *Process, first int) {
	s := r.steps
	for i, m := range p.Mappings {
		s.Call(unix.SYS_MMAP, uintptr(m.Start), uintptr(m.Size), m.Protection, unix.MAP_SHARED|unix.MAP_FIXED_NOREPLACE,
			uintptr(first+i), uintptr(m.Offset))
		for _, advice := range m.Advice {
			s.Call(unix.SYS_MADVISE, uintptr(m.Start), uintptr(m.Size), uintptr(advice)).MayFail()
		}
	}
}

// addWatches appends what an epoll set watches.
func (r *Restore) addWatches(d Descriptor) {
	for _, w := range d.Watches {
		event, mem := r.steps.Bytes(16)
		binary.NativeEndian.PutUint32(mem, w.Events)
		binary.NativeEndian.PutUint64(mem[4:], w.Data) // the structure is packed
		r.steps.Call(unix.SYS_EPOLL_CTL, uintptr(d.Number), unix.EPOLL_CTL_ADD, uintptr(w.Number), event)
	}
}

// earlyTerminal is the controlling terminal, if the process must have it before its
// descriptors: its children inherit it.
func (p *RestoreSpec) earlyTerminal() *os.File {
	if len(p.Children) == 0 {
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
func (r *Restore) takeTerminalEarly(p *RestoreSpec) {
	if p.earlyTerminal() == nil {
		return
	}
	r.steps.Receive(r.walker.Socket, 1, receiveFlags)
	r.steps.Call(unix.SYS_IOCTL, firstReceived, unix.TIOCSCTTY, 0)
	r.steps.Call(unix.SYS_CLOSE_RANGE, firstReceived, lastDescriptor, 0)
}

// setForeground appends the choice of the process group that the terminal listens
// to. All of them are there by now.
func (r *Restore) setForeground(p *RestoreSpec) {
	if p.Foreground == 0 {
		return
	}
	number, mem := r.steps.Bytes(8)
	binary.NativeEndian.PutUint32(mem, uint32(p.Foreground))
	r.steps.Call(unix.SYS_IOCTL, uintptr(p.Terminal), unix.TIOCSPGRP, number)
}
