package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"aether/engine"
	"aether/rest"
)

func pruneCommand() *cobra.Command {
	var req engine.PruneRequest
	cmd := &cobra.Command{
		Use:   "prune",
		Short: "Remove from disk what nothing refers to",
		Long: `Have the daemon remove from disk what nothing refers to: images and layers that no sandbox or
template is made of, disks of machines, checkpoints of no record, layers of recipes, and records
that could not be read. Nothing goes that a sandbox uses, also a paused one, or a preparation that
runs. It is for operators.`,
		Example: `  aether prune --dry-run
  aether prune
  aether prune --layers-after 24h
  aether prune --damaged-after 24h --json`,
		Args: noArguments,
	}
	cmd.Flags().BoolVar(&req.DryRun, "dry-run", false, "say what would go, and remove nothing")
	cmd.Flags().DurationVar(&req.Damaged, "damaged-after", 7*24*time.Hour, "remove records that could not be read after this long")
	cmd.Flags().DurationVar(&req.Layers, "layers-after", 0, "remove layers of recipes that no preparation has used for this long")
	asJSON := jsonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return withDaemon(cmd, func(ctx context.Context, client *rest.Client) error {
			report, err := client.Prune(ctx, req)
			switch {
			case err != nil:
				return err
			case *asJSON:
				return printJSON(cmd, report)
			}
			return printText(cmd, pruneText(report, req.DryRun, screenOf(cmd.OutOrStdout())))
		})
	}
	return cmd
}

func pruneText(report engine.PruneReport, dry bool, s screen) string {
	drawn := ""
	if len(report.Removed) > 0 {
		t := table{titles: []string{"kind", "name", "size"}}
		for _, one := range report.Removed {
			t.rows = append(t.rows, []cell{text(visible(one.Kind)), text(visible(one.Name)), text(sizeText(&one.Bytes))})
		}
		drawn = t.render(s) + "\n\n"
	}
	for _, why := range report.Kept {
		drawn += s.paint(yellow, "kept: "+visible(why)) + "\n"
	}
	verb := "removed"
	if dry {
		verb = "would remove"
	}
	return drawn + fmt.Sprintf("%s %d of %s", verb, len(report.Removed), sizeText(&report.Bytes))
}
