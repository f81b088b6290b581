package cli

import (
	"context"

	"github.com/spf13/cobra"

	"aether/engine"
	"aether/rest"
	"aether/sandbox"
)

func pauseCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "pause ID...",
		Short: "Keep sandboxes as checkpoints, with nothing running",
		Long: `Keep sandboxes as checkpoints on disk: their files and, where the driver can, the memory of their
processes. Nothing of them runs until they are resumed. Where memory cannot be kept that is refused,
with the reason; --files keeps the files alone, and processes end.`,
		Example: "  aether pause 7k2m9x0r4c8v1b5n3q6w\n  aether pause --files 7k2m9x0r4c8v1b5n3q6w",
		Args:    someIDs, ValidArgsFunction: completeIDs(manyIDs, engine.Running),
	}
	fidelity := filesFlag(cmd, "keep the files alone; processes end")
	return changing(cmd, func(c *rest.Client, ctx context.Context, id string) (engine.Sandbox, error) {
		return c.Pause(ctx, id, fidelity())
	})
}

// filesFlag gives a command its --files; what it says is empty without it.
func filesFlag(cmd *cobra.Command, usage string) func() sandbox.Fidelity {
	files := cmd.Flags().Bool("files", false, usage)
	return func() sandbox.Fidelity {
		if *files {
			return sandbox.Filesystem
		}
		return ""
	}
}

// changing has a command change each sandbox, and print what became of all with --json.
func changing(cmd *cobra.Command, change func(*rest.Client, context.Context, string) (engine.Sandbox, error)) *cobra.Command {
	asJSON := jsonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return withDaemon(cmd, func(ctx context.Context, client *rest.Client) error {
			changed := []engine.Sandbox{}
			err := forEach(args, func(id string) error {
				now, err := change(client, ctx, id)
				if err == nil {
					changed = append(changed, now)
				}
				return err
			})
			return printChanged(cmd, changed, *asJSON, err)
		})
	}
	return cmd
}
