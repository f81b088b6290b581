package confine

import (
	"context"
	"errors"
	"os"
	"strings"

	"aether/internal/host/inroot"
	"aether/internal/host/upperdir"
	"aether/sandbox"

	"golang.org/x/sys/unix"
)

// keepUpper has PID 1 hold the directory of the cell's writes, which has no path
// once the root is the cell's own.
func (s script) keepUpper() { s.keep(stageUpper+"/u", upperFd) }

// Upper opens the directory of the cell's writes: what is new or changed in its
// root, in the form of an overlay's upper layer, with ids of the host. It is for
// reading only, for the kernel does not expect changes below a mounted overlay,
// and means something while nothing runs in the cell.
func (c *Cell) Upper() (file *os.File, err error) {
	gone := c.init.Fd(func(pidfd int) {
		file, err = upperOf(pidfd)
	})
	if err = errors.Join(gone, err); err != nil {
		return nil, &sandbox.Error{Class: sandbox.NotFound, Op: "confine: open the cell's writes", Err: err}
	}
	return file, nil
}

func upperOf(pidfd int) (*os.File, error) {
	held, err := unix.PidfdGetfd(pidfd, upperFd, 0)
	if err != nil {
		return nil, os.NewSyscallError("pidfd_getfd", err)
	}
	defer unix.Close(held)
	fd, err := unix.Openat(held, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("openat", err)
	}
	return os.NewFile(uintptr(fd), "upper"), nil
}

// TakeWrites brings everything that another cell of the same image has written,
// its shared memory included, into this one, in which nothing has run yet. Nothing
// may run in the other. After an error this cell is good for nothing.
func (c *Cell) TakeWrites(ctx context.Context, from *Cell) error {
	w, err := c.OpenWrites(from)
	if err != nil {
		return err
	}
	return errors.Join(w.Take(ctx), w.Close())
}

// Writes are the places that one cell's writes are brought from and to.
type Writes struct {
	from, to places
	owned    Identity // how those of from are owned
	cell     *Cell    // whose to is
}

// places are the root and the shared memory.
type places [2]*os.File

func (p places) close() error {
	var errs []error
	for _, f := range p {
		if f != nil {
			errs = append(errs, f.Close())
		}
	}
	return errors.Join(errs...)
}

// WriteSource is where a cell's writes are, kept open for the next time that they
// are brought elsewhere.
type WriteSource struct {
	from  places
	owned Identity
}

// WriteSource opens it.
func (c *Cell) WriteSource() (*WriteSource, error) {
	w := WriteSource{owned: c.Identity()}
	var err error
	if w.from[0], err = c.Upper(); err == nil {
		w.from[1], err = c.SharedMemory()
	}
	if err != nil {
		return nil, errors.Join(err, w.from.close())
	}
	return &w, nil
}

// Close closes it.
func (w *WriteSource) Close() error {
	if w == nil {
		return nil
	}
	return w.from.close()
}

// Open opens the plain file at a path of the cell, for reading, if the cell has
// written it. It says whether the cell has written anything there: what it has not is
// the image's, or of something that is mounted there.
func (w *WriteSource) Open(path string) (file *os.File, written bool, err error) {
	if below, ok := strings.CutPrefix(path, "/dev/shm"); ok && (below == "" || below[0] == '/') {
		return upperdir.Open(w.from[1], "."+below)
	}
	return upperdir.Open(w.from[0], "."+path)
}

// OpenWrites is Cell.OpenWrites from a source, which may be closed before the writes
// are taken.
func (w *WriteSource) OpenWrites(to *Cell) (*Writes, error) {
	var from places
	var err error
	for i, f := range w.from {
		if from[i], err = duplicate(f); err != nil {
			return nil, errors.Join(err, from.close())
		}
	}
	return to.openWrites(from, w.owned)
}

func duplicate(f *os.File) (*os.File, error) {
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("fcntl", err)
	}
	return os.NewFile(uintptr(fd), f.Name()), nil
}

// OpenWrites opens what TakeWrites needs, while the other cell may run: it is
// stopped for a shorter time then.
func (c *Cell) OpenWrites(from *Cell) (*Writes, error) {
	source, err := from.WriteSource()
	if err != nil {
		return nil, err
	}
	return c.openWrites(source.from, source.owned)
}

// openWrites opens where writes are brought to.
func (c *Cell) openWrites(from places, owned Identity) (w *Writes, err error) {
	w = &Writes{from: from, owned: owned, cell: c}
	if w.to[0], err = c.Root(); err == nil {
		w.to[1], err = sharedMemory(w.to[0])
	}
	if err != nil {
		return nil, errors.Join(err, w.Close())
	}
	return w, nil
}

// Take brings them. Nothing may run in the other cell.
func (w *Writes) Take(ctx context.Context) error {
	for i := range w.from {
		if err := upperdir.CopyFor(ctx, w.from[i], w.to[i], w.cell.maker(), w.owner); err != nil {
			return err
		}
	}
	return nil
}

// owner gives a file of one cell to whom the other has in the same place.
func (w *Writes) owner(uid, gid uint32) (int, int, error) {
	if w.owned.Single {
		return int(uid), int(gid), nil
	}
	return w.cell.Identity().ToHost(w.owned.FromHost(uid, gid))
}

// Close closes the places.
func (w *Writes) Close() error { return errors.Join(w.from.close(), w.to.close()) }

// FillSharedMemory brings the files of a directory, with ids of the cell, into its
// /dev/shm, which is as it was made.
func (c *Cell) FillSharedMemory(ctx context.Context, from *os.File) error {
	to, err := c.SharedMemory()
	if err != nil {
		return err
	}
	defer to.Close()
	if c.Identity().Single { // all files are the caller's, who unpacked them
		return upperdir.Copy(ctx, from, to, c.maker())
	}
	return upperdir.CopyFor(ctx, from, to, c.maker(), c.Identity().ToHost)
}

// SharedMemory opens the cell's /dev/shm, which is no part of its root.
func (c *Cell) SharedMemory() (*os.File, error) {
	dir, err := c.Root()
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	return sharedMemory(dir)
}

func sharedMemory(root *os.File) (*os.File, error) { return inroot.New(root).OpenDir("/dev/shm") }

// maker is in whose name files are made in the cell.
func (c *Cell) maker() inroot.Identity {
	id := c.Identity()
	if id.Single {
		return inroot.Identity{UID: id.uid, GID: id.gid}
	}
	return inroot.Identity{UID: id.base, GID: id.base}
}
