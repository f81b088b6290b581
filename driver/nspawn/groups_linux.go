package nspawn

import (
	"errors"
	"os"
	"path/filepath"

	"aether/sandbox"
)

// groups are those that nspawn makes below its own cgroup, one for the container
// and one for itself, and moves both into.
var groups = []string{"payload", "supervisor"}

// makeGroups makes them ahead: the root of a user namespace may not.
func makeGroups(group string) error {
	if group == "" {
		return &sandbox.Error{Class: sandbox.Unavailable, Reason: "systemd-nspawn needs a cgroup, and this host gives none",
			Remedy: "mount the cgroup file systems, writable"}
	}
	for _, name := range groups {
		if err := os.Mkdir(filepath.Join(group, name), 0o755); err != nil && !errors.Is(err, os.ErrExist) {
			return err
		}
	}
	return nil
}
