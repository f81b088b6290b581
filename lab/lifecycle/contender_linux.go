package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"aether/lab"
)

// contender is a sandbox system that is measured. Its methods may be called by
// many at once.
type contender interface {
	// cold makes a sandbox, runs the first program in it to its end and removes
	// everything again.
	cold(context.Context) (lab.Sample, error)
	// live makes a sandbox that stays until its end.
	live(context.Context) (living, error)
	close() error
}

// living is a sandbox that stays.
type living interface {
	// exec runs the first program in the sandbox to its end. One at a time.
	exec(context.Context) (lab.Sample, error)
	// end removes the sandbox and everything that came with it.
	end() error
}

const (
	firstPath = "/first"
	stayPath  = "/stay"
	// patience bounds the wait for any one program.
	patience = 30 * time.Second
)

// newRoot makes the root file system that all contenders share: two programs
// and the places that are mounted on.
func newRoot(dir string) (string, error) {
	root := filepath.Join(dir, "root")
	for _, name := range []string{"dev", "proc", "tmp"} {
		if err := os.MkdirAll(filepath.Join(root, name), 0o755); err != nil {
			return "", err
		}
	}
	for name, content := range map[string][]byte{firstPath: firstProgram(), stayPath: stayProgram()} {
		if err := os.WriteFile(filepath.Join(root, name), content, 0o755); err != nil {
			return "", err
		}
	}
	return root, nil
}

// output is a pipe from a measured program.
type output struct{ read, write *os.File }

func newOutput() (*output, error) {
	read, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	return &output{read, write}, nil
}

// firstByte waits for the byte. Only the program may hold the writing end by
// then, so that its end without a byte is seen.
func (o *output) firstByte() error {
	if err := o.read.SetReadDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	var b [1]byte
	if _, err := io.ReadFull(o.read, b[:]); err != nil {
		return fmt.Errorf("no byte came from the program: %w", err)
	}
	if b[0] != message {
		return fmt.Errorf("%q came from the program in place of %q", b[0], message)
	}
	return nil
}

// drained waits until every process that could write has ended.
func (o *output) drained() error {
	err := o.read.SetReadDeadline(time.Now().Add(patience))
	if err == nil {
		var rest int64
		if rest, err = io.Copy(io.Discard, o.read); rest > 0 {
			err = errors.Join(err, fmt.Errorf("%d bytes more came from the program", rest))
		}
	}
	return errors.Join(err, o.read.Close())
}

func (o *output) close() error { return errors.Join(o.write.Close(), o.read.Close()) }
