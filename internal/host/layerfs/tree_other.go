//go:build !linux

package layerfs

import (
	"errors"
	"fmt"
	"io"
)

// Tree cannot be written on this system: only Linux has overlayfs.
type Tree struct{}

var errNotLinux = fmt.Errorf("layerfs: layers are unpacked on Linux only: %w", errors.ErrUnsupported)

// Open answers errors.ErrUnsupported.
func Open(string) (*Tree, error) { return nil, errNotLinux }

func (*Tree) Mkdir(string) error                           { return errNotLinux }
func (*Tree) File(string, io.Reader) error                 { return errNotLinux }
func (*Tree) Socket(string) error                          { return errNotLinux }
func (*Tree) Symlink(_, _ string) error                    { return errNotLinux }
func (*Tree) Link(_, _ string) error                       { return errNotLinux }
func (*Tree) Fifo(string) error                            { return errNotLinux }
func (*Tree) Whiteout(string) error                        { return errNotLinux }
func (*Tree) Opaque(string) error                          { return errNotLinux }
func (*Tree) Set(string, Meta) error                       { return errNotLinux }
func (*Tree) Sparse(string, int64, []Run, io.Reader) error { return errNotLinux }
func (*Tree) Implied() int64                               { return 0 }
func (*Tree) Close() error                                 { return errNotLinux }
