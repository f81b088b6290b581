package cli

import (
	"context"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"aether/engine"
	"aether/rest"
	"aether/sandbox"
)

func poolCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "pool", Short: "Keep children of templates ready",
		Long: "A pool keeps children of a template forked ahead, so that a sandbox of it is there at once. It belongs\n" +
			"to the template, and is there again after a restart of the daemon.",
		Example: "  aether pool set py 4\n  aether pool list\n  aether pool set py 0",
		Args:    knownSubcommand,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(poolSetCommand(), poolListCommand())
	return cmd
}

func poolSetCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "set NAME SIZE", Short: "Say how many children of a template are kept ready", Args: exactly(2, "a name and a number"),
		Example: "  aether pool set py 4", ValidArgsFunction: completeTemplates,
	}
	json := jsonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		size, err := strconv.Atoi(args[1])
		if err != nil {
			return sandbox.Invalidf("size", "%.40q is not a number", args[1])
		}
		return withDaemon(cmd, func(ctx context.Context, client *rest.Client) error {
			info, err := client.ChangeTemplate(ctx, args[0], engine.TemplateChange{Ahead: &size})
			if err != nil || !*json {
				return err
			}
			return printJSON(cmd, summaryOf(info))
		})
	}
	return cmd
}

// poolSummary is the pool of a template as list prints it.
type poolSummary struct {
	Template string `json:"template"`
	Version  int    `json:"version"`
	Size     int    `json:"size"`
	engine.PoolStats
}

func poolListCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List the pools, and how they do", Args: noArguments,
		Example: "  aether pool list\n  aether pool list --json",
	}
	json := jsonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return withDaemon(cmd, func(ctx context.Context, client *rest.Client) error {
			list, err := pools(ctx, client)
			switch {
			case err != nil:
				return err
			case *json:
				return printJSON(cmd, list)
			case len(list) == 0:
				printError(cmd, "aether: nothing is kept ready (see aether pool set)")
				return nil
			}
			rows := [][]string{{"template", "size", "ready", "claimed", "forked then", "reason"}}
			for _, p := range list {
				rows = append(rows, []string{fmt.Sprintf("%s@%d", p.Template, p.Version), fmt.Sprint(p.Size), fmt.Sprint(p.Ready), fmt.Sprint(p.Claimed), fmt.Sprint(p.Direct), oneLine(p.Reason)})
			}
			return printText(cmd, columns(rows))
		})
	}
	return cmd
}

func pools(ctx context.Context, client *rest.Client) ([]poolSummary, error) {
	all, err := allTemplates(ctx, client)
	list := []poolSummary{}
	for _, info := range all {
		if info.Ahead == 0 {
			continue
		}
		p := poolSummary{Template: info.Name, Version: info.Version, Size: info.Ahead}
		if info.Pool != nil {
			p.PoolStats = *info.Pool
		}
		list = append(list, p)
	}
	return list, err
}
