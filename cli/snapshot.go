package cli

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"aether/engine"
	"aether/rest"
	"aether/sandbox"
)

func snapshotCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "snapshot",
		Short: "Keep sandboxes as they are, to make others of them or to go back",
		Long: `Keep a sandbox as it is now, on disk, while it goes on. aether create --snapshot makes any number of
sandboxes of a snapshot, whose processes go on from there, and aether rollback takes a sandbox back
to one.`,
		Example: `  s=$(aether snapshot create 7k2m9x0r4c8v1b5n3q6w --name green)
  aether create --snapshot "$s"
  aether rollback 7k2m9x0r4c8v1b5n3q6w --snapshot "$s"`,
		Args: knownSubcommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(snapshotCreateCommand(), snapshotListCommand(), snapshotRemoveCommand())
	return cmd
}

func snapshotCreateCommand() *cobra.Command {
	var req engine.SnapshotRequest
	var metadata []string
	cmd := &cobra.Command{
		Use:   "create ID",
		Short: "Keep a sandbox as it is now, and print the snapshot's id",
		Long: `Keep a sandbox as it is now, its files and the memory of its processes, and print the id of the
snapshot. The sandbox goes on. What cannot be kept is refused; --files keeps its files alone.`,
		Example: "  aether snapshot create 7k2m9x0r4c8v1b5n3q6w --name green\n  aether snapshot create 7k2m9x0r4c8v1b5n3q6w --files --metadata task=42",
		Args:    exactly(1, "one id"), ValidArgsFunction: completeIDs(1, engine.Running),
	}
	cmd.Flags().StringVar(&req.Name, "name", "", "a word to find it by; others may have the same")
	cmd.Flags().StringArrayVar(&metadata, "metadata", nil, "K=V to find it by; repeatable")
	cmd.Flags().StringVar(&req.Key, "idempotency-key", "", "the same key gives the same answer, however often the command is run")
	fidelity := filesFlag(cmd, "keep its files alone, and no memory")
	asJSON := jsonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		req.Fidelity = fidelity()
		if req.Metadata, err = parseMetadata(metadata); err != nil {
			return err
		}
		return withDaemon(cmd, func(ctx context.Context, client *rest.Client) error {
			made, err := client.Snapshot(ctx, args[0], req)
			switch {
			case err != nil:
				return err
			case *asJSON:
				return printJSON(cmd, made)
			}
			return printText(cmd, made.ID)
		})
	}
	return cmd
}

func snapshotListCommand() *cobra.Command {
	var q engine.SnapshotQuery
	var metadata []string
	cmd := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List snapshots, newest first",
		Example: "  aether snapshot list\n  aether snapshot list --sandbox 7k2m9x0r4c8v1b5n3q6w --json\n  aether snapshot rm $(aether snapshot list --quiet --name green)",
		Args:    noArguments,
	}
	flags := cmd.Flags()
	flags.StringVar(&q.Sandbox, "sandbox", "", "those that were taken of this sandbox")
	flags.StringVar(&q.Name, "name", "", "those of this name")
	flags.StringVar(&q.Tenant, "tenant", "", "those of this tenant, for operators")
	flags.StringArrayVar(&metadata, "metadata", nil, "those with this K=V; repeatable")
	quiet := flags.BoolP("quiet", "q", false, "print ids alone")
	asJSON := jsonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) (err error) {
		if q.Metadata, err = parseMetadata(metadata); err != nil {
			return err
		}
		return withDaemon(cmd, func(ctx context.Context, client *rest.Client) error {
			list, err := listSnapshots(ctx, client, q)
			switch {
			case err != nil:
				return err
			case *asJSON:
				return printJSON(cmd, list)
			}
			return printSnapshots(cmd, list, *quiet)
		})
	}
	return cmd
}

// listSnapshots gives every page.
func listSnapshots(ctx context.Context, client *rest.Client, q engine.SnapshotQuery) ([]engine.Snapshot, error) {
	list := []engine.Snapshot{}
	for {
		page, err := client.Snapshots(ctx, q)
		if err != nil {
			return nil, err
		}
		list = append(list, page.Snapshots...)
		if q.After = page.Next; q.After == "" {
			return list, nil
		}
	}
}

func printSnapshots(cmd *cobra.Command, list []engine.Snapshot, quiet bool) error {
	ids := make([]string, len(list))
	t := table{titles: []string{"id", "name", "of", "keeps", "size", "made", "metadata"}}
	for i, s := range list {
		ids[i] = s.ID
		t.rows = append(t.rows, []cell{text(s.ID), text(visible(orDash(s.Name))), text(visible(s.Sandbox)), text(keptText(s.Fidelity)), text(sizeText(&s.Size)),
			text(ago(s.Created, time.Now())), text(visible(metadataText(s.Metadata)))})
	}
	switch {
	case quiet && len(list) > 0:
		return printText(cmd, strings.Join(ids, "\n"))
	case len(list) > 0:
		return printText(cmd, t.render(screenOf(cmd.OutOrStdout())))
	case !quiet:
		printError(cmd, "aether: there is no snapshot (take one with aether snapshot create)")
	}
	return nil
}

// keptText is what a snapshot keeps, in a word.
func keptText(f sandbox.Fidelity) string {
	if f == sandbox.Filesystem {
		return "files"
	}
	return "memory"
}

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

func snapshotRemoveCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "rm SNAPSHOT...",
		Aliases: []string{"remove"},
		Short:   "Remove snapshots; what was made of them lives on",
		Example: "  aether snapshot rm 4c8v1b5n3q6w7k2m9x0r",
		Args:    someIDs, ValidArgsFunction: completeSnapshots,
	}
	asJSON := jsonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return withDaemon(cmd, func(ctx context.Context, client *rest.Client) error {
			removed := []string{}
			err := forEach(args, func(id string) error {
				err := client.DeleteSnapshot(ctx, id)
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

// completeSnapshots offers the ids of snapshots.
func completeSnapshots(cmd *cobra.Command, _ []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	list := askForCompletion(cmd, func(ctx context.Context, client *rest.Client) (offer []cobra.Completion, err error) {
		page, err := client.Snapshots(ctx, engine.SnapshotQuery{})
		for _, s := range page.Snapshots {
			offer = append(offer, cobra.CompletionWithDesc(s.ID, visible(strings.TrimSpace(s.Name+" of "+s.Sandbox))))
		}
		return offer, err
	})
	return beginning(typed, list), cobra.ShellCompDirectiveNoFileComp
}
