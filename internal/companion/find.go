// Package companion finds the programs that are shipped beside this one. What they do is
// not its business.
package companion

import (
	"debug/elf"
	"errors"
	"os"
	"os/exec"
	"path/filepath"

	"aether/sandbox"
)

// Program is one of them.
type Program struct {
	Name string
	// Variable names it where it is neither beside this program nor in PATH.
	Variable string
	// For is what it is for, in errors.
	For string
}

// Find finds it: beside the running program, else where the variable says, else in PATH.
// Errors: Unavailable, also for one that is linked against libraries: companions run where
// there are none, and the kernel would say that the program itself does not exist.
func (p Program) Find() (string, error) {
	name, err := p.find()
	if err != nil {
		return "", err
	}
	if wantsLibraries(name) {
		return "", &sandbox.Error{Class: sandbox.Unavailable, Op: p.For, Reason: name + " is linked against libraries, and runs where there are none",
			Remedy: "build it with `make build`, which sets CGO_ENABLED=0"}
	}
	return name, nil
}

func (p Program) find() (string, error) {
	if self, err := os.Executable(); err == nil {
		beside := filepath.Join(filepath.Dir(self), p.Name)
		if isProgram(beside) {
			return beside, nil
		}
	}
	if named := os.Getenv(p.Variable); named != "" {
		if !isProgram(named) {
			return "", p.missing(p.Variable + " names " + named + ", which is no program")
		}
		return filepath.Abs(named)
	}
	found, err := exec.LookPath(p.Name)
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, exec.ErrDot) {
		return "", p.missing(p.Name + " is neither beside this program nor in PATH")
	}
	if err != nil {
		return "", err
	}
	return filepath.Abs(found)
}

func (p Program) missing(reason string) error {
	return &sandbox.Error{Class: sandbox.Unavailable, Op: p.For, Reason: reason,
		Remedy: "build it with `make build`, put it beside aether, or set " + p.Variable}
}

func isProgram(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o111 != 0
}

// wantsLibraries says whether a program names another that loads it. What cannot be read as
// a program is left to whoever starts it.
func wantsLibraries(name string) bool {
	file, err := elf.Open(name)
	if err != nil {
		return false
	}
	defer file.Close()
	for _, part := range file.Progs {
		if part.Type == elf.PT_INTERP {
			return true
		}
	}
	return false
}
