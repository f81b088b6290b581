package cli

import (
	"context"

	"github.com/spf13/cobra"

	"aether/engine"
	"aether/rest"
)

func templatePromoteCommand() *cobra.Command {
	var req engine.PromoteRequest
	var replace bool
	cmd := &cobra.Command{
		Use: "promote ID NAME", Short: "Make a template of a sandbox, which goes on", Args: exactly(2, "an id and a name"),
		Long: "Make a template of a sandbox as it is now, by a fork: the sandbox goes on. Its memory is kept on disk\n" +
			"where its system can; where it cannot, a restart of the daemon loses the template.",
		Example:           "  aether template promote 7k2m9x0r4c8v1b5n3q6w trained\n  aether template promote 7k2m9x0r4c8v1b5n3q6w trained --replace --tag stable",
		ValidArgsFunction: completeIDs(1, engine.Running, engine.Paused),
	}
	cmd.Flags().IntVar(&req.Ahead, "ahead", 0, "keep this many children forked ahead")
	cmd.Flags().StringArrayVar(&req.Tags, "tag", nil, "have this version be NAME:TAG too; repeatable")
	cmd.Flags().BoolVar(&replace, "replace", false, "make it the next version of a template that exists")
	json := jsonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if req.Name = args[1]; !replace {
			req.Version = 1
		}
		return withDaemon(cmd, func(ctx context.Context, client *rest.Client) error {
			info, err := client.Promote(ctx, args[0], req)
			if err != nil {
				return asFlag(err)
			}
			return printPrepared(cmd, info, *json)
		})
	}
	return cmd
}

func templateTagCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "tag NAME [TAG...]", Short: "Say which tags a version of a template has",
		Long: "Have a version of a template be NAME:TAG for each tag, and for no other than these. A tag that another\n" +
			"version has moves. An older version without tags is removed.",
		Example:           "  aether template tag py stable\n  aether template tag py@2 stable previous",
		ValidArgsFunction: completeTemplates,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return exactly(1, "a name")(cmd, args)
			}
			return nil
		},
	}
	json := jsonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return withDaemon(cmd, func(ctx context.Context, client *rest.Client) error {
			info, err := client.ChangeTemplate(ctx, args[0], engine.TemplateChange{Tags: append([]string{}, args[1:]...)})
			if err != nil || !*json {
				return err
			}
			return printJSON(cmd, summaryOf(info))
		})
	}
	return cmd
}
