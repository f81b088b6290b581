package confine

import (
	"encoding/binary"

	"golang.org/x/sys/unix"
)

// mappings appends the mapping of files that were received from first on. They
// are closed with what else has no place.
func (b *birth) mappings(first int) {
	for i, m := range b.Mappings {
		b.Call(unix.SYS_MMAP, uintptr(m.Start), uintptr(m.Size), m.Protection, unix.MAP_SHARED|unix.MAP_FIXED_NOREPLACE,
			uintptr(first+i), uintptr(m.Offset))
		for _, advice := range m.Advice {
			b.Call(unix.SYS_MADVISE, uintptr(m.Start), uintptr(m.Size), uintptr(advice)).MayFail()
		}
	}
}

// descriptors appends their moving to their numbers: first out of the way of
// each other, then into place.
func (b *birth) descriptors() {
	received := 3
	if b.Program != nil {
		b.twin.state.SetMM(b.Script, received)
		received++
	}
	b.mappings(received + len(b.Descriptors))
	aside := received + len(b.Descriptors) + len(b.Mappings)
	for _, d := range b.Descriptors {
		aside = max(aside, d.Number+1)
	}
	for i := range b.Descriptors {
		b.Call(unix.SYS_DUP3, uintptr(received+i), uintptr(aside+i), unix.O_CLOEXEC)
	}
	b.Call(unix.SYS_CLOSE_RANGE, 0, uintptr(aside-1), 0)
	for i, d := range b.Descriptors {
		var flags uintptr
		if d.CloseOnExec {
			flags = unix.O_CLOEXEC
		}
		b.Call(unix.SYS_DUP3, uintptr(aside+i), uintptr(d.Number), flags)
	}
	b.closeFrom(uintptr(aside))
	for _, d := range b.Descriptors {
		for _, lock := range d.Locks {
			lock.Take(b.Script, d.Number)
		}
	}
	for _, poll := range b.Polls {
		for _, w := range poll.Watches {
			const add = 1 // EPOLL_CTL_ADD
			event, mem := b.Bytes(16)
			binary.NativeEndian.PutUint32(mem, w.Events)
			binary.NativeEndian.PutUint64(mem[4:], w.Data) // the structure is packed
			b.Call(unix.SYS_EPOLL_CTL, uintptr(poll.Number), add, uintptr(w.Number), event)
		}
	}
	if b.Terminal >= 0 && b.twin.Place.Session == b.twin.of {
		b.Call(unix.SYS_IOCTL, uintptr(b.Terminal), unix.TIOCSCTTY, 0)
		b.foreground()
	}
}

// foreground appends the choice of the process group that the terminal listens
// to. All of them are there by now.
func (b *birth) foreground() {
	if b.Foreground == 0 {
		return
	}
	number, mem := b.Bytes(8)
	binary.NativeEndian.PutUint32(mem, uint32(b.Foreground))
	b.Call(unix.SYS_IOCTL, uintptr(b.Terminal), unix.TIOCSPGRP, number)
}
