//go:build linux

package guest

import (
	"errors"
	"syscall"
)

// makeParents makes a directory and those above it. Where the caller may not, and the
// request asks for it, the first that is missing is made for it by root and is its own.
func (c *caller) makeParents(dir string) error {
	err := c.as.Do(func() error { return c.root.MkdirAll(dir, newDir) })
	if c.over == nil || !errors.Is(err, syscall.EACCES) {
		return err
	}
	if err := c.root.MkdirFor(dir, newDir, *c.over, c.as); err != nil {
		return err
	}
	return c.as.Do(func() error { return c.root.MkdirAll(dir, newDir) })
}
