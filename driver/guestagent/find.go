package guestagent

import "aether/internal/companion"

// Name is the program that runs inside.
const Name = "aether-guest"

// PathVariable names the program where it is neither beside this one nor in PATH.
const PathVariable = "AETHER_GUEST"

// Find finds aether-guest: beside the running program, else where AETHER_GUEST
// says, else in PATH. Errors: Unavailable.
func Find() (string, error) {
	return companion.Program{Name: Name, Variable: PathVariable, For: "guest service"}.Find()
}
