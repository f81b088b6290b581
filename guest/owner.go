//go:build linux

package guest

import (
	"bytes"
	"fmt"
	"io"
	"os"

	"aether/internal/host/inroot"
	"aether/sandbox"
)

// WriteFile makes or replaces a file in the sandbox in one step, on behalf of whoever owns
// the sandbox: no token is asked for. It belongs to the user, by name or number, and all
// may read it.
func (s *Service) WriteFile(user, name string, contents []byte) error {
	c, err := s.caller(nil, user)
	if err != nil {
		return err
	}
	defer c.done()
	_, err = c.receiveFile(name, bytes.NewReader(contents), nil)
	return err
}

// ReadFile gives the contents of a file in the sandbox that the user may read. Errors:
// Invalid for what is no file, or one of more than most bytes.
func (s *Service) ReadFile(user, name string, most int64) ([]byte, error) {
	c, err := s.caller(nil, user)
	if err != nil {
		return nil, err
	}
	defer c.done()
	var file *os.File
	err = c.as.Do(func() (err error) {
		file, err = c.root.Open(name, 0, 0)
		return err
	})
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := inroot.StatFile(file)
	switch {
	case err != nil:
		return nil, err
	case !info.Mode.IsRegular():
		return nil, sandbox.Invalidf("path", "%q is not a file", clip(name))
	}
	text, err := io.ReadAll(io.LimitReader(file, most+1))
	if err == nil && int64(len(text)) > most {
		err = fmt.Errorf("read %q: %w", clip(name), sandbox.Invalidf("path", "it has more than %d bytes", most))
	}
	return text, err
}
