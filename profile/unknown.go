package profile

import (
	"fmt"
	"strings"

	"aether/sandbox"
)

// UnknownError is a name that is none of the known ones. It is found in the
// chain of the error that a parser gives, so that a front door can suggest the
// nearest.
type UnknownError struct {
	Name string
	// Known are the canonical names, Other the further spellings that are read.
	Known, Other []string
}

func (e *UnknownError) Error() string { return fmt.Sprintf("%.60q is not known", e.Name) }

func unknown(field, name string, known, other []string) *sandbox.Error {
	return &sandbox.Error{Class: sandbox.Invalid, Field: field,
		Err:    &UnknownError{Name: name, Known: known, Other: other},
		Remedy: "known: " + strings.Join(known, ", ")}
}
