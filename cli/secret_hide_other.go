//go:build !linux

package cli

import (
	"io"

	"golang.org/x/term"
)

// hideInput has a terminal not show what is typed while read gives the next line, and show
// has it behave as before.
func hideInput(_ io.Reader, terminal int) (read func() ([]byte, error), show func() error, err error) {
	before, err := term.GetState(terminal)
	read = func() ([]byte, error) { return term.ReadPassword(terminal) }
	return read, func() error { return term.Restore(terminal, before) }, err
}
