package checkpoint

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"unsafe"

	"aether/internal/host/features"
	"aether/internal/host/spawn"

	"golang.org/x/sys/unix"
)

const (
	// maxContent bounds what is copied for one checkpoint: this program holds it.
	maxContent = 1 << 30
	// maxDataRuns bounds the pieces of one copy. What has more is copied whole.
	maxDataRuns = 256
	removedMark = " (deleted)"
)

// shmDevice is that of memory which files stand for.
var shmDevice = sync.OnceValues(func() (uint64, error) {
	fd, err := unix.MemfdCreate("device", unix.MFD_CLOEXEC)
	if err != nil {
		return 0, os.NewSyscallError("memfd_create", err)
	}
	defer unix.Close(fd)
	var stat unix.Stat_t
	err = unix.Fstat(fd, &stat)
	return stat.Dev, err
})

// content keeps what is in the file that a link of /proc leads to, which the
// process knows by a name. One that was removed, but still has another name, is
// refused, and so is what is no plain file.
func (k *SharedObjects) content(p *Tracee, link, name string) (*Content, error) {
	var stat unix.Stat_t
	if err := unix.Stat(link, &stat); err != nil {
		return nil, os.NewSyscallError("stat", err)
	}
	id := fileID{stat.Dev, stat.Ino}
	if c := k.contents[id]; c != nil {
		return c, nil
	}
	shm, err := shmDevice()
	if err != nil {
		return nil, err
	}
	c := &Content{id: id, Size: stat.Size, Mode: stat.Mode & 0o7777}
	switch clean := strings.TrimSuffix(name, removedMark); {
	case stat.Mode&unix.S_IFMT != unix.S_IFREG:
		return nil, p.refuse(false, "holds %s, which was removed and is no plain file", name)
	case stat.Dev == shm && strings.HasPrefix(clean, "/SYSV"):
		return nil, p.refuse(false, "has shared memory of System V (shmget)")
	case stat.Dev == shm:
		c.Memory, c.Name = true, text(strings.TrimPrefix(strings.TrimPrefix(clean, "/"), "memfd:"))
	case stat.Nlink != 0:
		return nil, p.refuse(false, "holds %s, which was removed under this name and has another", name)
	default:
		c.Dir = text(clean[:max(strings.LastIndexByte(clean, '/'), 1)])
	}
	if err := k.copy(p, c, link, name); err != nil {
		return nil, err
	}
	k.contents[id] = c
	return c, nil
}

// copy copies what is in the file, but for its holes.
func (k *SharedObjects) copy(p *Tracee, c *Content, link, name string) error {
	old, err := os.OpenFile(link, os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer old.Close()
	var fs unix.Statfs_t
	if err := unix.Fstatfs(int(old.Fd()), &fs); err != nil {
		return os.NewSyscallError("fstatfs", err)
	}
	if fs.Type == unix.HUGETLBFS_MAGIC {
		return p.refuse(false, "uses huge pages of hugetlbfs (%s)", name)
	}
	if c.Memory {
		if c.Seals, err = unix.FcntlInt(old.Fd(), unix.F_GET_SEALS, 0); err != nil {
			return os.NewSyscallError("fcntl", err)
		}
	}
	if c.Data, err = dataRuns(old, c.Size); err != nil {
		return err
	}
	if k.bytes += int64(sizeOf(c.Data)); k.bytes > maxContent {
		return p.refuse(false, "holds more than %d MiB in files without a name (%s)", maxContent>>20, name)
	}
	fd, err := unix.MemfdCreate("fork", unix.MFD_CLOEXEC)
	if err != nil {
		return os.NewSyscallError("memfd_create", err)
	}
	file := os.NewFile(uintptr(fd), "fork")
	if err := copyRuns(file, old, c.Data, c.Size); err != nil {
		return errors.Join(err, file.Close())
	}
	c.file = file
	return nil
}

// dataRuns finds where a file has something.
func dataRuns(f *os.File, size int64) (runs []run, err error) {
	for at := int64(0); at < size; {
		start, err := unix.Seek(int(f.Fd()), at, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) {
			return runs, nil
		}
		if err != nil {
			return nil, os.NewSyscallError("lseek", err)
		}
		end, err := unix.Seek(int(f.Fd()), start, unix.SEEK_HOLE)
		if err != nil {
			return nil, os.NewSyscallError("lseek", err)
		}
		if runs = append(runs, run{uint64(start), uint64(end)}); len(runs) > maxDataRuns {
			return []run{{0, uint64(size)}}, nil
		}
		at = end
	}
	return runs, nil
}

func copyRuns(to, from *os.File, runs []run, size int64) error {
	if err := to.Truncate(size); err != nil {
		return err
	}
	for _, r := range runs {
		offset := int64(r.Start)
		if _, err := to.Seek(offset, 0); err != nil {
			return err
		}
		for offset < int64(r.End) {
			n, err := unix.Sendfile(int(to.Fd()), int(from.Fd()), &offset, int(int64(r.End)-offset))
			if err != nil {
				return os.NewSyscallError("sendfile", err)
			}
			if n == 0 {
				return fmt.Errorf("checkpoint: a file ended at %d, before %d", offset, r.End)
			}
		}
	}
	return nil
}

// steps is how many remake takes at most.
func (c *Content) steps() int { return 12 + 2*c.pieces() }

// bytes is how much memory remake takes at most.
func (c *Content) bytes() int { return 1024 + 4*len(c.Dir) + 16*c.pieces() }

// piece is how much one step copies.
const piece = 1 << 30

func (c *Content) pieces() (n int) {
	for _, r := range c.Data {
		n += int((r.End-r.Start)/piece) + 1
	}
	return n
}

// createUnlinked appends the making of a file without a name in the directory.
func (c *Content) createUnlinked(s *spawn.Script) {
	if features.OverlayTmpfile() {
		s.Call(unix.SYS_OPENAT, here, s.String(string(c.Dir)), unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
		return
	}
	// It has a name for a moment in which nobody runs who could see it. That the
	// directory was changed is undone where the user may.
	const timesOfStat = 72 // st_atim, followed by st_mtim, as utimensat takes them
	stat, _ := s.Bytes(int(unsafe.Sizeof(unix.Stat_t{})))
	name := s.String(string(c.Dir) + "/.aether-" + rand.Text())
	s.Call(unix.SYS_NEWFSTATAT, here, s.String(string(c.Dir)), stat, 0)
	s.Call(unix.SYS_OPENAT, here, name, unix.O_CREAT|unix.O_EXCL|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
	s.Call(unix.SYS_UNLINKAT, here, name, 0)
	s.Call(unix.SYS_UTIMENSAT, here, s.String(string(c.Dir)), stat+timesOfStat, 0).MayFail()
}

// recreate appends the making of a file with the same content, as descriptor at,
// from the copy, which is descriptor from. It gives the steps that copy.
func (c *Content) recreate(s *spawn.Script, from, at uintptr) (copies []transfer) {
	if c.Memory {
		s.Call(unix.SYS_MEMFD_CREATE, s.String(string(c.Name)), unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	} else {
		c.createUnlinked(s)
	}
	s.Call(unix.SYS_FTRUNCATE, at, uintptr(c.Size))
	position := uint64(0)
	for _, r := range c.Data {
		for start := r.Start; start < r.End; start += piece {
			n := min(r.End-start, piece)
			offset := s.Int64(int64(start))
			if c.packed {
				offset = s.Int64(int64(position))
			}
			position += n
			s.Call(unix.SYS_LSEEK, at, uintptr(start), unix.SEEK_SET)
			step := s.Call(unix.SYS_SENDFILE, at, from, offset, uintptr(n))
			copies = append(copies, transfer{step, n})
		}
	}
	s.Call(unix.SYS_FCHMOD, at, uintptr(c.Mode))
	s.Call(unix.SYS_LSEEK, at, 0, unix.SEEK_SET)
	if c.Memory && c.Seals != 0 {
		s.Call(unix.SYS_FCNTL, at, unix.F_ADD_SEALS, uintptr(c.Seals))
	}
	return copies
}
