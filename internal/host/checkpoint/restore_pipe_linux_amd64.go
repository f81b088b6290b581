package checkpoint

import (
	"os"
	"slices"

	"aether/internal/host/spawn"

	"golang.org/x/sys/unix"
)

// pipe is one of the restored cell's. Each of its ends is given to one open file;
// further ones get copies, each with its own way of waiting.
type pipe struct {
	ends   [2]*os.File // for reading, for writing
	taken  [2]bool
	filled bool // it holds what it held
}

const (
	readEnd = iota
	writeEnd
)

// newPipeEnd makes the end of a pipe that a descriptor stands for. If the other end
// was outside of the source's cell, it is outside of this one too.
func (r *FileRestorer) newPipeEnd(of *Process, d Descriptor) (*os.File, error) {
	p := r.pipes[d.Inode]
	if p == nil {
		var err error
		if p, err = r.newPipe(d.Inode); err != nil {
			return nil, err
		}
		r.pipes[d.Inode] = p
	}
	if len(d.Unread) > 0 && !p.filled {
		p.filled = true
		if err := p.fill(of, d); err != nil {
			return nil, err
		}
	}
	which := writeEnd
	if d.Flags&unix.O_ACCMODE == unix.O_RDONLY {
		which = readEnd
	}
	end := p.ends[which]
	if d.Flags&unix.O_APPEND != 0 || p.taken[which] {
		var err error
		if end, err = reopen(end, d.Flags); err != nil {
			return nil, err
		}
	} else {
		p.taken[which] = true
	}
	return end, setCapacity(end, d.Capacity)
}

// newPipe makes a pipe like one of the source's. An end that is outside, if one is,
// can be waited for with others; a process that had it too gets a copy.
func (r *FileRestorer) newPipe(inode uint64) (*pipe, error) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		return nil, os.NewSyscallError("pipe2", err)
	}
	i := slices.IndexFunc(r.streams, func(s *Stream) bool { return s.Pipe != nil && s.Pipe.Inode == inode })
	outside, err := -1, error(nil)
	if i >= 0 {
		if outside = readEnd; r.streams[i].Pipe.Writes {
			outside = writeEnd
		}
		fds[outside] = spawn.AsideOfMany(fds[outside])
		err = os.NewSyscallError("fcntl", unix.SetNonblock(fds[outside], true))
	}
	p := &pipe{}
	for n, name := range []string{"|0", "|1"} {
		p.ends[n] = r.give(os.NewFile(uintptr(fds[n]), name))
	}
	if i >= 0 {
		r.Outside[r.streams[i]] = p.ends[outside]
		p.taken[outside] = true
	}
	return p, err
}

// fill puts what had not been read into the pipe. It does not wait for room, whatever
// the process does that has this end already.
func (p *pipe) fill(of *Process, d Descriptor) error {
	to, err := reopen(p.ends[writeEnd], unix.O_WRONLY|unix.O_NONBLOCK)
	if err != nil {
		return err
	}
	defer to.Close()
	if err := setCapacity(to, d.Capacity); err != nil {
		return err
	}
	n, err := writeNow(to, d.Unread)
	if err == nil && n < len(d.Unread) {
		err = of.refuse("has a pipe that holds more than fits a new one (%d of %d bytes)", n, len(d.Unread))
	}
	return err
}
