package cli

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"aether/engine"
	"aether/rest"
	"aether/sandbox"
)

func markCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "mark",
		Short: "Mark moments of a sandbox, to go back to them at once",
		Long: `Mark moments of a sandbox, to which aether rollback --mark takes it back. A mark is a frozen copy in
memory: it is made and gone back to within milliseconds, and ends with the sandbox or its pause. A
sandbox has up to 8. What has to last is a snapshot.`,
		Example: `  aether mark create 7k2m9x0r4c8v1b5n3q6w before
  aether exec 7k2m9x0r4c8v1b5n3q6w -- rm -r /srv
  aether rollback 7k2m9x0r4c8v1b5n3q6w --mark before`,
		Args: knownSubcommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(markCreateCommand(), markListCommand(), markRemoveCommand())
	return cmd
}

func markCreateCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "create ID [NAME]",
		Short:   "Mark a sandbox as it is now, and print the mark's name",
		Example: "  aether mark create 7k2m9x0r4c8v1b5n3q6w before\n  m=$(aether mark create 7k2m9x0r4c8v1b5n3q6w)",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) < 1 || len(args) > 2 {
				return exactly(1, "an id and, if you like, a name")(cmd, args)
			}
			return nil
		},
		ValidArgsFunction: completeIDs(1, engine.Running),
	}
	asJSON := jsonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		name := ""
		if len(args) == 2 {
			if name = args[1]; name == "" {
				return sandbox.Invalidf("name", "it is empty")
			}
		}
		return withDaemon(cmd, func(ctx context.Context, client *rest.Client) error {
			made, err := client.Mark(ctx, args[0], name)
			switch {
			case err != nil:
				return err
			case *asJSON:
				return printJSON(cmd, made)
			}
			return printText(cmd, made.Name)
		})
	}
	return cmd
}

func markListCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "list ID",
		Aliases: []string{"ls"},
		Short:   "List the marks of a sandbox, oldest first",
		Example: "  aether mark list 7k2m9x0r4c8v1b5n3q6w",
		Args:    exactly(1, "one id"), ValidArgsFunction: completeIDs(1, engine.Running),
	}
	asJSON := jsonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return withDaemon(cmd, func(ctx context.Context, client *rest.Client) error {
			list, err := client.Marks(ctx, args[0])
			switch {
			case err != nil:
				return err
			case *asJSON:
				return printJSON(cmd, list)
			case len(list) == 0:
				printError(cmd, "aether: the sandbox has no mark (make one with aether mark create)")
				return nil
			}
			t := table{titles: []string{"name", "made"}}
			for _, m := range list {
				t.rows = append(t.rows, []cell{text(visible(m.Name)), text(ago(m.Created, time.Now()))})
			}
			return printText(cmd, t.render(screenOf(cmd.OutOrStdout())))
		})
	}
	return cmd
}

func markRemoveCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "rm ID NAME...",
		Aliases: []string{"remove"},
		Short:   "Remove marks of a sandbox",
		Example: "  aether mark rm 7k2m9x0r4c8v1b5n3q6w before",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) < 2 {
				return exactly(2, "an id and one name or more")(cmd, args)
			}
			return nil
		},
		ValidArgsFunction: completeIDs(1, engine.Running),
	}
	asJSON := jsonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return withDaemon(cmd, func(ctx context.Context, client *rest.Client) error {
			removed := []string{}
			err := forEach(args[1:], func(name string) error {
				err := client.DeleteMark(ctx, args[0], name)
				if err == nil {
					removed = append(removed, name)
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
