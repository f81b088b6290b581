package oci

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/opencontainers/runtime-spec/specs-go"

	"aether/driver/command"
	"aether/sandbox"
)

// install is where each runtime is to be had.
var install = map[Runtime]string{
	Runc:  "install the package runc",
	Crun:  "install the package crun",
	Youki: "install a release of youki (github.com/youki-dev/youki), or build it with `make youki`",
}

// minMemory is what each runtime needs beside the guest service. The runtime
// stays as the parent of the sandbox, and that of runc is a program of Go.
var minMemory = map[Runtime]int64{Runc: 48 << 20, Crun: 24 << 20, Youki: 24 << 20}

func system(r Runtime) command.System {
	s := command.System{
		Name: string(r), Program: string(r), Install: install[r], MinMemory: minMemory[r], Seals: r == Youki, OwnNetwork: true,
		Version: func(ctx context.Context, path string) (string, error) {
			line, err := command.FirstLine(ctx, path, "--version")
			return strings.TrimLeft(strings.TrimPrefix(line, string(r)+" version"), ": "), err
		},
		Command: r.command,
	}
	switch {
	case install[r] == "":
		s.Needs = func() error {
			return &sandbox.Error{Class: sandbox.Invalid, Field: "runtime", Reason: fmt.Sprintf("%.40q is not a runtime that can be driven", string(r)),
				Remedy: "use runc, crun or youki"}
		}
	case r != Crun:
		// They ask for the sandbox's root among the ids. The guest service would be
		// that root, and have none of its rights.
		s.Needs = command.NeedsRoot(string(r)+" needs more ids inside than the one that an ordinary user has", "run as root, or use crun")
	}
	return s
}

// hideGroups covers the cgroups of the host, which a runtime in a user namespace
// cannot change: crun gives up where it finds both versions of them, and youki
// where it can make no group of its own. The sandbox has its cgroup already.
const hideGroups = "mount -t tmpfs -o size=1m none /sys/fs/cgroup\n"

// feignGroups lets youki move its process into a group of each hierarchy of version
// 1: it finds them among the mounts, covered or not, and gives up where it cannot.
// What it writes goes nowhere.
const feignGroups = `while read -r _ _ _ _ at _; do
case $at in /sys/fs/cgroup/*) mkdir -p "$at"; ln -sf /dev/null "$at/cgroup.procs";; esac
done </proc/self/mountinfo
`

// feignedGroup is the one that youki is to use: the top of each hierarchy.
const feignedGroup = "/"

func (r Runtime) command(s command.Stage, spec sandbox.Spec) (command.Command, error) {
	c := command.Command{Args: []string{s.Program, "--root", filepath.Join(s.Dir, "state")}}
	bundle := config(s, spec)
	switch r {
	case Crun:
		c.Args, c.Prepare = append(c.Args, "--cgroup-manager=disabled"), hideGroups
	case Youki:
		c.Prepare = hideGroups + feignGroups
		if err := suitYouki(bundle); err != nil {
			return c, err
		}
	}
	// A keyring for each sandbox would use up the quota of their one user.
	c.Args = append(c.Args, "run", "--no-new-keyring", "--bundle", s.Dir, spec.ID)
	var err error
	c.Config, err = json.Marshal(bundle)
	return c, err
}

// suitYouki changes a bundle to one that youki reads as it is meant. Youki takes the
// mask and the value of a filter's condition for each other, and knows no filters at
// all unless it was built with them, so that the guest service puts ours on itself.
func suitYouki(bundle *specs.Spec) (err error) {
	bundle.Linux.CgroupsPath = feignedGroup
	bundle.Linux.Seccomp = nil
	bundle.Process.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"} // wanted also for a program that is named by its path
	bundle.Process.Args, err = command.FilteringArgs()
	return err
}
