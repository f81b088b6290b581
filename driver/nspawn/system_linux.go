package nspawn

import (
	"context"

	"aether/driver/command"
	"aether/sandbox"
)

func system() command.System {
	return command.System{
		Name: Name, Program: Name, Install: "install the package systemd-container", MinMemory: 24 << 20, OwnNetwork: true,
		NoHostNetwork: "with the host's network systemd-nspawn mounts a /sys that the root of a user namespace may not",
		Needs:         command.NeedsRoot("systemd-nspawn needs more ids inside than the one that an ordinary user has", "run as root, or use crun or bubblewrap"),
		Version: func(ctx context.Context, path string) (string, error) {
			return command.FirstLine(ctx, path, "--version")
		},
		Command: invoke,
	}
}

func invoke(s command.Stage, spec sandbox.Spec) (command.Command, error) {
	if err := makeGroups(s.Group); err != nil {
		return command.Command{}, err
	}
	return command.Command{
		Args:    arguments(s, spec.ID),
		Prepare: prepare,
		// nspawn would mount a /tmp that no limit on the disk holds for.
		Env: []string{"SYSTEMD_NSPAWN_TMPFS_TMP=0", groupVariable + "=" + s.Group, rootVariable + "=" + s.Root},
	}, nil
}
