package command

import (
	"os"

	"aether/sandbox"
)

// NeedsRoot is a System.Needs for programs that cannot do with the one id that an
// ordinary user has.
func NeedsRoot(reason, remedy string) func() error {
	return func() error {
		if os.Geteuid() == 0 {
			return nil
		}
		return &sandbox.Error{Class: sandbox.Unavailable, Reason: reason, Remedy: remedy}
	}
}
