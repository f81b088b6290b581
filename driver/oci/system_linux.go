package oci

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"

	"aether/driver/command"
	"aether/sandbox"
)

// install is where each runtime is to be had.
var install = map[Runtime]string{
	Runc:  "install the package runc",
	Crun:  "install the package crun",
	Youki: "install a release of youki (github.com/youki-dev/youki)",
}

// minMemory is what each runtime needs beside the guest service. The runtime
// stays as the parent of the sandbox, and that of runc is a program of Go.
var minMemory = map[Runtime]int64{Runc: 48 << 20, Crun: 24 << 20, Youki: 24 << 20}

func system(r Runtime) command.System {
	s := command.System{
		Name: string(r), Program: string(r), Install: install[r], MinMemory: minMemory[r],
		Version: func(ctx context.Context, path string) (string, error) {
			line, err := command.FirstLine(ctx, path, "--version")
			return strings.TrimPrefix(line, string(r)+" version "), err
		},
		Command: r.command,
	}
	switch {
	case install[r] == "":
		s.Needs = func() error {
			return &sandbox.Error{Class: sandbox.Invalid, Field: "runtime", Reason: fmt.Sprintf("%.40q is not a runtime that can be driven", string(r)),
				Remedy: "use runc, crun or youki"}
		}
	case r == Runc:
		// It asks for the sandbox's root among the ids. The guest service would be
		// that root, and have none of its rights.
		s.Needs = command.NeedsRoot("runc needs more ids inside than the one that an ordinary user has", "run as root, or use crun")
	}
	return s
}

// hideGroups covers the cgroups of the host, which a runtime in a user namespace
// cannot change: crun gives up where it finds both versions of them, and youki
// where it can make no group of its own. The sandbox has its cgroup already.
const hideGroups = "mount -t tmpfs -o size=1m none /sys/fs/cgroup"

func (r Runtime) command(s command.Stage, spec sandbox.Spec) (command.Command, error) {
	text, err := json.Marshal(config(s, spec))
	args := []string{s.Program, "--root", filepath.Join(s.Dir, "state")}
	if r == Crun {
		args = append(args, "--cgroup-manager=disabled")
	}
	// A keyring for each sandbox would use up the quota of their one user.
	args = append(args, "run", "--no-new-keyring", "--bundle", s.Dir, spec.ID)
	c := command.Command{Args: args, Config: text}
	if r != Runc {
		c.Prepare = hideGroups
	}
	return c, err
}
