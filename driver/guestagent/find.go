package guestagent

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"

	"aether/sandbox"
)

// Name is the program that runs inside.
const Name = "aether-guest"

// PathVariable names the program where it is neither beside this one nor in PATH.
const PathVariable = "AETHER_GUEST"

// Find finds aether-guest: beside the running program, else where AETHER_GUEST
// says, else in PATH. Errors: Unavailable.
func Find() (string, error) {
	if self, err := os.Executable(); err == nil {
		beside := filepath.Join(filepath.Dir(self), Name)
		if isProgram(beside) {
			return beside, nil
		}
	}
	if named := os.Getenv(PathVariable); named != "" {
		if !isProgram(named) {
			return "", missing(PathVariable + " names " + named + ", which is no program")
		}
		return filepath.Abs(named)
	}
	found, err := exec.LookPath(Name)
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, exec.ErrDot) {
		return "", missing(Name + " is neither beside this program nor in PATH")
	}
	if err != nil {
		return "", err
	}
	return filepath.Abs(found)
}

func missing(reason string) error {
	return &sandbox.Error{Class: sandbox.Unavailable, Op: "guest service", Reason: reason,
		Remedy: "build it with `make build`, put it beside aether, or set " + PathVariable}
}

func isProgram(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o111 != 0
}
