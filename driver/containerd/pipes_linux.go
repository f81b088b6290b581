package containerd

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"syscall"

	"aether/driver/guestagent"
	"aether/internal/host/layerfs"
)

// pipes are the named pipes that a shim joins to the standard descriptors of a
// container. They are in a directory of their own.
type pipes struct {
	dir            string
	in, out, errIn *os.File
	said           guestagent.Said
}

// Names of the pipes.
const (
	inName  = "in"
	outName = "out"
	errName = "err"
)

// makePipes makes them in dir, which exists and is empty.
func makePipes(dir string) (p *pipes, err error) {
	tree, err := layerfs.Open(dir)
	if err != nil {
		return nil, err
	}
	for _, name := range []string{inName, outName, errName} {
		err = errors.Join(err, tree.Fifo(name))
	}
	if err := errors.Join(err, tree.Close()); err != nil {
		return nil, err
	}
	p = &pipes{dir: dir}
	for name, file := range map[string]**os.File{inName: &p.in, outName: &p.out, errName: &p.errIn} {
		// For both directions, so that neither end has to wait for the other. When
		// this program ends nobody holds the input open, and the shim closes it.
		if *file, err = os.OpenFile(p.path(name), os.O_RDWR|syscall.O_NONBLOCK, 0); err != nil {
			return nil, errors.Join(err, p.Close())
		}
	}
	go func() { _, _ = io.Copy(&p.said, p.errIn) }()
	return p, nil
}

func (p *pipes) path(name string) string { return filepath.Join(p.dir, name) }

func (p *pipes) Read(b []byte) (int, error)  { return p.out.Read(b) }
func (p *pipes) Write(b []byte) (int, error) { return p.in.Write(b) }

// Close ends the input, and with it the guest service. It is idempotent.
func (p *pipes) Close() (err error) {
	for _, file := range []*os.File{p.in, p.out, p.errIn} {
		if file == nil {
			continue
		}
		if closed := file.Close(); !errors.Is(closed, os.ErrClosed) {
			err = errors.Join(err, closed)
		}
	}
	return err
}
