package upperdir

import (
	"context"
	"os"

	"golang.org/x/sys/unix"
)

// Extent is a run of bytes of a file that are not a hole.
type Extent struct {
	Offset, Length int64
}

// Extents gives the parts of a file that hold data. Holes below least bytes are
// taken for data.
func Extents(f *os.File, size, least int64) (list []Extent, err error) {
	err = eachExtent(int(f.Fd()), size, func(e Extent) error {
		if last := len(list) - 1; last >= 0 && e.Offset-list[last].end() < least {
			list[last].Length = e.end() - list[last].Offset
			return nil
		}
		list = append(list, e)
		return nil
	})
	return list, fault("seek", f.Name(), err)
}

func (e Extent) end() int64 { return e.Offset + e.Length }

func eachExtent(fd int, size int64, fn func(Extent) error) error {
	for at := int64(0); at < size; {
		start, err := unix.Seek(fd, at, unix.SEEK_DATA)
		if err == unix.ENXIO {
			return nil // a hole up to the end
		}
		if err != nil {
			return err
		}
		end, err := unix.Seek(fd, start, unix.SEEK_HOLE)
		if err != nil {
			return err
		}
		end = min(end, size)
		if err := fn(Extent{start, end - start}); err != nil {
			return err
		}
		at = end
	}
	return nil
}

// chunk is how much is copied between two looks at the context.
const chunk = 4 << 20

// copyData brings the content of a file to an empty one, holes as holes.
func copyData(ctx context.Context, to, from int, e *Entry) error {
	if e.Size == 0 {
		return nil
	}
	if e.dense {
		return copyExtent(ctx, to, from, Extent{0, e.Size})
	}
	err := eachExtent(from, e.Size, func(x Extent) error {
		if _, err := unix.Seek(to, x.Offset, unix.SEEK_SET); err != nil {
			return err
		}
		return copyExtent(ctx, to, from, x)
	})
	if err != nil {
		return err
	}
	return unix.Ftruncate(to, e.Size)
}

func copyExtent(ctx context.Context, to, from int, x Extent) error {
	offset := x.Offset
	for end := x.end(); offset < end; {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := unix.Sendfile(to, from, &offset, int(min(end-offset, chunk)))
		switch {
		case err == unix.EINTR || err == unix.EAGAIN:
		case err != nil:
			return err
		case n == 0:
			return ErrChanged
		}
	}
	return nil
}

// Pour appends parts of a file to another, one after another.
func Pour(ctx context.Context, to, from *os.File, list []Extent) error {
	for _, x := range list {
		if err := copyExtent(ctx, int(to.Fd()), int(from.Fd()), x); err != nil {
			return fault("copy", from.Name(), err)
		}
	}
	return nil
}
