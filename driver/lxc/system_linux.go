package lxc

import (
	"context"
	"crypto/rand"
	"path/filepath"
	"strings"

	"aether/driver/command"
	"aether/sandbox"
)

// Places in the stage's directory.
const (
	stateDir   = "lxc"
	mountDir   = "rootfs"
	filterFile = "filter"
	// networkFile is the sandbox's network namespace.
	networkFile = "network"
)

// prepare makes them. The filter has no text of a caller in it.
func prepare() string {
	return "mkdir " + stateDir + " " + mountDir + "\n: >" + networkFile + "\nmount --bind /proc/self/ns/net " + networkFile + "\ncat >" + filterFile + " <<'END'\n" + command.LXCFilter() + "END"
}

func system() command.System {
	return command.System{
		Name: Name, Program: "lxc-start", Install: "install the package lxc", MinMemory: 24 << 20, OwnNetwork: true, NetworkFile: networkFile,
		NoHostNetwork: "on the host's network the sandbox could reach the socket by which lxc-start takes orders",
		Version: func(ctx context.Context, path string) (string, error) {
			return command.FirstLine(ctx, path, "--version")
		},
		// It gives up its groups, which a user with one id may not.
		Needs:   command.NeedsRoot("lxc-start needs more ids inside than the one that an ordinary user has", "run as root, or use crun or bubblewrap"),
		Command: invoke,
	}
}

// invoke runs lxc-start in a network namespace of its own, which is not the sandbox's: it
// takes orders from an abstract socket, which everybody in the same namespace can reach.
// For that reason a sandbox cannot have the host's network.
func invoke(s command.Stage, spec sandbox.Spec) (command.Command, error) {
	return command.Command{
		Args: []string{"unshare", "--net", "--", s.Program, "--foreground", "--name", strings.ToLower(rand.Text()),
			"--lxcpath", filepath.Join(s.Dir, stateDir), "--rcfile", filepath.Join(s.Dir, command.ConfigFile)},
		Env:     []string{"HOME=" + s.Dir, "XDG_RUNTIME_DIR=" + s.Dir},
		Prepare: prepare(),
		Config:  []byte(config(s, spec)),
	}, nil
}
