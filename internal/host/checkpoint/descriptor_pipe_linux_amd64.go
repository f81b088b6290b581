package checkpoint

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// readPipe keeps how large a pipe is and, by an end for reading, what is in it.
func (p *Tracee) readPipe(d *Descriptor) error {
	fd, err := p.borrow(d.Number)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if d.Capacity, err = unix.FcntlInt(uintptr(fd), unix.F_GETPIPE_SZ, 0); err != nil {
		return os.NewSyscallError("fcntl", err)
	}
	if d.Flags&unix.O_ACCMODE != unix.O_WRONLY {
		d.Unread, err = p.peekPipe(fd, d)
	}
	return err
}

// peekPipe reads what is in a pipe and leaves it there.
func (p *Tracee) peekPipe(pipe int, d *Descriptor) ([]byte, error) {
	n, err := unix.IoctlGetInt(pipe, unix.TIOCINQ)
	if err != nil || n == 0 {
		return nil, err
	}
	if d.Flags&unix.O_DIRECT != 0 {
		return nil, p.refuse(true, "has packets in the pipe of descriptor %d", d.Number)
	}
	var ends [2]int
	if err := unix.Pipe2(ends[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		return nil, os.NewSyscallError("pipe2", err)
	}
	defer unix.Close(ends[0])
	defer unix.Close(ends[1])
	unix.FcntlInt(uintptr(ends[1]), unix.F_SETPIPE_SZ, d.Capacity) //nolint:errcheck // what does not fit is found out below
	copied, err := unix.Tee(pipe, ends[1], n, unix.SPLICE_F_NONBLOCK)
	if err != nil {
		return nil, os.NewSyscallError("tee", err)
	}
	if copied != int64(n) {
		return nil, p.refuse(true, "has a pipe of which only %d of %d bytes can be copied", copied, n)
	}
	content := make([]byte, n)
	for read := 0; read < n; {
		got, err := unix.Read(ends[0], content[read:])
		if err != nil {
			return nil, os.NewSyscallError("read", err)
		}
		read += got
	}
	return content, nil
}

// pipeEnd says which pipe a file of this program's is an end of, and whether it
// is the end for writing.
func pipeEnd(f *os.File) (inode uint64, writes bool, err error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return 0, false, err
	}
	controlled := raw.Control(func(fd uintptr) {
		var stat unix.Stat_t
		if err = unix.Fstat(int(fd), &stat); err != nil {
			return
		}
		var flags int
		flags, err = unix.FcntlInt(fd, unix.F_GETFL, 0)
		inode, writes = stat.Ino, flags&unix.O_ACCMODE == unix.O_WRONLY
	})
	if controlled != nil {
		err = os.ErrClosed // the only reason, for which there is no other name
	}
	return inode, writes, err
}

// writeNow writes as much as fits into a pipe, without waiting.
func writeNow(pipe *os.File, data []byte) (n int, err error) {
	raw, err := pipe.SyscallConn()
	if err != nil {
		return 0, err
	}
	controlled := raw.Control(func(fd uintptr) {
		if err = unix.SetNonblock(int(fd), true); err != nil {
			return
		}
		if n, err = unix.Write(int(fd), data); err == unix.EAGAIN {
			n, err = 0, nil
		}
	})
	return n, errors.Join(controlled, err)
}

// setCapacity makes a pipe as large as another was.
func setCapacity(pipe *os.File, size int) error {
	raw, err := pipe.SyscallConn()
	if err != nil {
		return err
	}
	controlled := raw.Control(func(fd uintptr) {
		now, failed := unix.FcntlInt(fd, unix.F_GETPIPE_SZ, 0)
		if failed == nil && now != size {
			_, failed = unix.FcntlInt(fd, unix.F_SETPIPE_SZ, size)
		}
		err = os.NewSyscallError("fcntl", failed)
	})
	return errors.Join(controlled, err)
}
