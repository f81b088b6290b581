package inroot

import (
	"context"
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

const (
	// MaxDepth bounds how deep a tree is walked: each level holds a descriptor.
	MaxDepth = 200
	batch    = 1024
)

// RemoveAll removes name and everything below it; links are removed, never
// followed. What does not exist is no error. The context bounds a removal that
// the sandbox keeps adding to.
func (r *Root) RemoveAll(ctx context.Context, name string) error {
	p, err := r.Place(name)
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		return err
	}
	defer p.Close()
	return ignoreMissing(p.removeAll(ctx, 0))
}

func (p *Place) removeAll(ctx context.Context, depth int) error {
	err := p.unlink(0)
	if !errors.Is(err, unix.EISDIR) {
		return err
	}
	if depth == MaxDepth {
		return pathError("remove", p.path, unix.ELOOP)
	}
	for ctx.Err() == nil {
		if err := p.empty(ctx, depth); err != nil {
			return err
		}
		if err := p.unlink(unix.AT_REMOVEDIR); !errors.Is(err, unix.ENOTEMPTY) {
			return err
		}
	}
	return ctx.Err()
}

// empty removes the entries of a directory that it finds in one reading.
func (p *Place) empty(ctx context.Context, depth int) error {
	dir, err := openBelow(p.dir, p.name, p.path, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	defer dir.Close()
	for ctx.Err() == nil {
		names, err := dir.Readdirnames(batch)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		for _, name := range names {
			child := &Place{dir, name, p.path + "/" + name}
			if err := ignoreMissing(child.removeAll(ctx, depth+1)); err != nil {
				return err
			}
		}
	}
	return ctx.Err()
}

func ignoreMissing(err error) error {
	if os.IsNotExist(err) {
		return nil
	}
	return err
}
