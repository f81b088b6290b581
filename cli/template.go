package cli

import (
	"context"

	"github.com/spf13/cobra"

	"aether/engine"
	"aether/rest"
)

func templateCommand(drivers *drivers) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "template",
		Short: "Prepare sandboxes once and fork them often",
		Long: "A template is a sandbox that was prepared and is kept: files written, programs started, modules\n" +
			"imported. `aether run --template NAME` forks it, and the copy goes on from there in milliseconds.\n" +
			"It is held by the daemon of AETHER_URL, or else by this user's own, which is started if it does\n" +
			"not run; after a restart of the daemon, and of the host, it is there again.",
		Example: `  aether template prepare py --code python imports.py
  aether run --template py -c 'print(6*7)'
  aether template show py --tree
  aether template rm py`,
		Args: knownSubcommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(templatePrepareCommand(drivers), templatePromoteCommand(), templateTagCommand(), templateListCommand(), templateShowCommand(), templateRemoveCommand())
	return cmd
}

// knownSubcommand refuses every argument that reaches a command of commands.
func knownSubcommand(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return unknownName(cmd.Name(), args[0], commandNames(cmd))
	}
	return nil
}

// allTemplates lists every template of a daemon.
func allTemplates(ctx context.Context, client *rest.Client) (all []engine.TemplateInfo, err error) {
	for q := (engine.TemplateQuery{}); ; {
		page, err := client.ListTemplates(ctx, q)
		if err != nil {
			return nil, err
		}
		all = append(all, page.Templates...)
		if q.After = page.Next; q.After == "" {
			return all, nil
		}
	}
}

// templateNames are the names by which templates can be asked for, each once.
func templateNames(ctx context.Context, client *rest.Client) (names []string, err error) {
	all, err := allTemplates(ctx, client)
	for _, info := range all {
		if info.Latest {
			names = append(names, info.Name)
		}
	}
	return names, err
}

// completeTemplates offers the names of templates.
func completeTemplates(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return askForCompletion(cmd, templateNames), cobra.ShellCompDirectiveNoFileComp
}
