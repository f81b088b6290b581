package cli

import (
	"context"

	"github.com/spf13/cobra"

	"aether/engine"
	"aether/rest"
)

func pauseCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "pause ID...",
		Short: "Keep sandboxes as checkpoints, with nothing running",
		Long: `Keep sandboxes as checkpoints on disk: their files and, where the driver can, the memory of their
processes. Nothing of them runs until they are resumed.`,
		Example: "  aether pause 7k2m9x0r4c8v1b5n3q6w",
		Args:    someIDs, ValidArgsFunction: completeIDs(manyIDs, engine.Running),
	}
	return changing(cmd, (*rest.Client).Pause)
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
