package cli

import (
	"io"

	"aether/internal/host/pty"
)

// hideInput has a terminal not show what is typed from now on. read gives the next line, and
// show has the terminal behave as before.
func hideInput(in io.Reader, terminal int) (read func() ([]byte, error), show func() error, err error) {
	show, err = pty.Hide(terminal)
	return func() ([]byte, error) { return readTyped(in) }, show, err
}

// readTyped reads a line, byte by byte, such that nothing after it is lost.
func readTyped(in io.Reader) (line []byte, err error) {
	one := make([]byte, 1)
	for len(line) < maxSecretInput {
		n, err := in.Read(one)
		switch {
		case n > 0 && one[0] == '\n':
			return line, nil
		case n > 0:
			line = append(line, one[0])
		case err == io.EOF && len(line) > 0:
			return line, nil
		case err != nil:
			return line, err
		}
	}
	return line, nil
}
