package upperdir

import (
	"context"

	"golang.org/x/sys/unix"
)

// remove takes away what the image has by a name, with everything in it. Nothing
// mounted there is touched: the rest goes, and the answer is EBUSY.
func remove(ctx context.Context, dir int, name string, depth int) error {
	err := unix.Unlinkat(dir, name, 0)
	if err == unix.ENOENT {
		return nil
	}
	if err != unix.EISDIR {
		return err
	}
	if depth == MaxDepth {
		return errTooDeep
	}
	if err := empty(ctx, dir, name, depth); err != nil {
		return err
	}
	return unix.Unlinkat(dir, name, unix.AT_REMOVEDIR)
}

// empty removes everything in a directory, in rounds: what is listed while it is
// being removed may be listed incompletely.
func empty(ctx context.Context, dir int, name string, depth int) error {
	fd, err := openWithin(dir, name, unix.O_RDONLY|unix.O_DIRECTORY)
	if err == unix.EXDEV {
		return unix.EBUSY
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	for {
		var stays error
		l := level{entry: Entry{Path: name, fd: fd}}
		if _, err := unix.Seek(fd, 0, unix.SEEK_SET); err != nil {
			return err
		}
		removed := 0
		for more := true; more; {
			if more, err = l.read(); err != nil {
				return err
			}
			for _, child := range l.names {
				if err := ctx.Err(); err != nil {
					return err
				}
				switch err := remove(ctx, fd, child, depth+1); err {
				case nil:
					removed++
				case unix.EBUSY:
					stays = err
				default:
					return err
				}
			}
		}
		if removed == 0 {
			return stays
		}
	}
}
