package cli

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"aether/profile"
	"aether/sandbox"
)

// exitCode is returned by a command that has already said what there is to say
// and chooses the exit status itself.
type exitCode int

func (c exitCode) Error() string { return fmt.Sprintf("exit status %d", int(c)) }

// report says in one line what failed and gives the exit status.
func report(stderr io.Writer, err error) int {
	var code exitCode
	switch {
	case err == nil:
		return 0
	case errors.As(err, &code):
		return int(code)
	}
	// Nobody is left to tell if standard error cannot be written to.
	_, _ = fmt.Fprintf(stderr, "aether: %s%s\n", visible(oneLine(err.Error())), visible(suggestion(err)))
	return statusOf(sandbox.ClassOf(err))
}

// statusOf is the one place where classes become exit statuses.
func statusOf(c sandbox.Class) int {
	if c == sandbox.Invalid {
		return 2
	}
	return 1
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// suggestion names the nearest known name where an unknown one is the fault.
func suggestion(err error) string {
	var u *profile.UnknownError
	if !errors.As(err, &u) {
		return ""
	}
	if name, ok := nearest(u.Name, append(u.Known[:len(u.Known):len(u.Known)], u.Other...)); ok {
		return "; did you mean " + name + "?"
	}
	return ""
}
