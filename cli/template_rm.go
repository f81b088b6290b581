package cli

import (
	"errors"

	"github.com/spf13/cobra"

	"aether/sandbox"
)

func templateRemoveCommand(drivers *drivers) *cobra.Command {
	cmd := &cobra.Command{
		Use: "rm NAME...", Aliases: []string{"remove"}, Short: "End templates and their children",
		Long:              "End templates, with every child that lives, and remove what holders that were killed have left.",
		Example:           "  aether template rm py",
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
		removed := []string{}
		var errs []error
		for _, name := range args {
			err := templates().Remove(cmd.Context(), name)
			if err == nil {
				removed = append(removed, name)
			}
			errs = append(errs, err)
		}
		errs = append(errs, reapAll(cmd, drivers))
		if *json {
			errs = append(errs, printJSON(cmd, map[string][]string{"removed": removed}))
		}
		return errors.Join(errs...)
	}
	return cmd
}

// reapAll removes what holders that were killed left on the host.
func reapAll(cmd *cobra.Command, drivers *drivers) (err error) {
	for _, d := range drivers.All() {
		if r, ok := d.(sandbox.Reaper); ok {
			_, failed := r.Reap(cmd.Context())
			err = errors.Join(err, failed)
		}
	}
	return err
}
