package cli

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"aether/rest"
)

func templateRemoveCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "rm NAME...", Aliases: []string{"remove"}, Short: "Remove templates",
		Long: "Remove templates: all versions of a name, or one as NAME@VERSION or NAME:TAG. Children that are kept\n" +
			"ready end with it; sandboxes that somebody has go on.",
		Example:           "  aether template rm py\n  aether template rm py@2",
		ValidArgsFunction: completeTemplates,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return exactly(1, "one name or more")(cmd, args)
			}
			return nil
		},
	}
	json := jsonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return withDaemon(cmd, func(ctx context.Context, client *rest.Client) error {
			removed := []string{}
			var errs []error
			for _, name := range args {
				err := client.RemoveTemplate(ctx, name)
				if err == nil {
					removed = append(removed, name)
				}
				errs = append(errs, err)
			}
			if *json {
				errs = append(errs, printJSON(cmd, map[string][]string{"removed": removed}))
			}
			return errors.Join(errs...)
		})
	}
	return cmd
}
