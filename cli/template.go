package cli

import (
	"github.com/spf13/cobra"

	"aether/cli/holder"
	"aether/internal/host/storedir"
)

// templates is where the templates of this user are found.
func templates() holder.Dir { return holder.In(storedir.Running()) }

func templateCommand(drivers *drivers) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "template",
		Short: "Prepare sandboxes once and fork them often",
		Long: "A template is a sandbox that was prepared and is kept: files written, programs started, modules\n" +
			"imported. `aether run --template NAME` forks it, and the copy goes on from there in milliseconds.",
		Example: `  aether template prepare py --code python imports.py
  aether run --template py -c 'print(6*7)'
  aether template show py --tree
  aether template rm py`,
		Args: knownSubcommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(templatePrepareCommand(drivers), templateListCommand(), templateShowCommand(), templateRemoveCommand(drivers), templateHoldCommand(drivers))
	return cmd
}

// knownSubcommand refuses every argument that reaches a command of commands.
func knownSubcommand(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return unknownName(cmd.Name(), args[0], commandNames(cmd))
	}
	return nil
}

// completeTemplates offers the names of templates.
func completeTemplates(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	names, err := templates().Names()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
