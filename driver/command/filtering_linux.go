package command

import (
	"encoding/base64"
	"slices"

	"aether/internal/host/seccomp"
)

// FilteringArgs have the program put the filter of system calls on itself, where its
// runtime cannot.
func FilteringArgs() ([]string, error) {
	filter, err := seccomp.Bytes()
	return append(slices.Clone(GuestArgs), "-filter", base64.StdEncoding.EncodeToString(filter)), err
}
