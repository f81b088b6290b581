package cli

import (
	"context"

	"github.com/spf13/cobra"

	"aether/engine"
	"aether/rest"
)

func resumeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "resume ID...",
		Short:   "Have paused sandboxes go on",
		Long:    "Have paused sandboxes go on where they were: with the same ids, files and, where memory was kept,\nprocesses. With --files they have their files alone, also where processes cannot go on\non this host any more.",
		Example: "  aether resume 7k2m9x0r4c8v1b5n3q6w\n  aether resume $(aether list --quiet --state paused)",
		Args:    someIDs, ValidArgsFunction: completeIDs(manyIDs, engine.Paused),
	}
	fidelity := filesFlag(cmd, "have the files alone, and no process that was kept")
	return changing(cmd, func(c *rest.Client, ctx context.Context, id string) (engine.Sandbox, error) {
		return c.Resume(ctx, id, fidelity())
	})
}
