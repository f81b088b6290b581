package cli

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"aether/engine"
	"aether/rest"
)

func removeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "rm ID...",
		Aliases: []string{"remove"},
		Short:   "End sandboxes and remove what was kept of them",
		Long:    "End sandboxes, running or paused, and remove what was kept of them. One that has ended already is no\nfailure.",
		Example: "  aether rm 7k2m9x0r4c8v1b5n3q6w\n  aether rm $(aether list --quiet)",
		Args:    someIDs, ValidArgsFunction: completeIDs(manyIDs, engine.Running, engine.Paused),
	}
	asJSON := jsonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return withDaemon(cmd, func(ctx context.Context, client *rest.Client) error {
			removed := []string{}
			err := forEach(args, func(id string) error {
				err := client.Destroy(ctx, id)
				if err == nil {
					removed = append(removed, id)
				}
				return err
			})
			if *asJSON {
				err = errors.Join(err, printJSON(cmd, map[string][]string{"removed": removed}))
			}
			return err
		})
	}
	return cmd
}

// printChanged prints what was changed, as JSON if that is asked for, and keeps the error.
func printChanged(cmd *cobra.Command, list []engine.Sandbox, asJSON bool, err error) error {
	if asJSON {
		return errors.Join(err, printJSON(cmd, list))
	}
	return err
}
