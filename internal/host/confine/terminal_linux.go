package confine

import (
	"errors"
	"os"

	"aether/internal/host/inroot"
	"aether/internal/host/pty"

	"golang.org/x/sys/unix"
)

// OpenPTY opens a new terminal of the cell's own.
func (c *Cell) OpenPTY() (master, slave *os.File, err error) {
	dir, err := c.Root()
	if err != nil {
		return nil, nil, err
	}
	root := inroot.New(dir)
	defer root.Close()
	if master, err = root.Open("/dev/pts/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_NONBLOCK, 0); err != nil {
		return nil, nil, err
	}
	if slave, err = pty.Open(master); err != nil {
		return nil, nil, errors.Join(err, master.Close())
	}
	return master, slave, nil
}
