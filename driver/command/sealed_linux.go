package command

import (
	"errors"
	"os"
	"sync"

	"aether/internal/host/launch"
)

// sealedCopy is that of a program which would make one for each sandbox, and keep it as long
// as the sandbox lives.
type sealedCopy struct {
	mu   sync.Mutex
	of   os.FileInfo // what was copied
	file *os.File
}

// open opens a copy of the program as it is now: one that was replaced is copied again.
func (c *sealedCopy) open(program string) (*os.File, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now, err := os.Stat(program)
	if err != nil {
		return nil, err
	}
	if c.file == nil || !os.SameFile(c.of, now) || c.of.Size() != now.Size() || !c.of.ModTime().Equal(now.ModTime()) {
		file, err := launch.SealedProgram(program)
		if err != nil {
			return nil, err
		}
		if err := c.drop(); err != nil {
			return nil, errors.Join(err, file.Close())
		}
		c.of, c.file = now, file
	}
	return launch.Reopen(c.file)
}

func (c *sealedCopy) close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.drop()
}

func (c *sealedCopy) drop() error {
	if c.file == nil {
		return nil
	}
	err := c.file.Close()
	c.file = nil
	return err
}
