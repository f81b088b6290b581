package cli

import (
	"context"

	"github.com/spf13/cobra"

	"aether/lab"
	"aether/lab/scale"
	"aether/sandbox"
)

func benchScaleCommand(drivers *drivers) *cobra.Command {
	var opts scale.Options
	cmd := &cobra.Command{
		Use: "scale", Short: "Measure whether sandboxes cost more the more of them live",
		Long: "Measure what it costs to make, use, fork and end a sandbox beside 10, 100, 1,000, 4,000 and 10,000 others,\n" +
			"and what each of those holds. A level that the host refuses is skipped, with the reason. A missed target is\n" +
			"a result and no failure.",
		Example: "  aether bench scale\n  aether bench scale --alive 1000 --rounds 20 --json\n  aether bench scale --host-network",
		Args:    noArguments,
	}
	cmd.Flags().IntVar(&opts.Rounds, "rounds", scale.DefaultRounds, "measure everything this many times at each level, up and down")
	cmd.Flags().IntVar(&opts.Alive, "alive", scale.DefaultAlive, "have at most this many sandboxes alive")
	cmd.Flags().BoolVar(&opts.HostNetwork, "host-network", false, "have them on the host's network, without net namespaces of their own")
	measures(cmd, drivers, func(ctx context.Context, driver sandbox.Driver, progress *lab.Progress) (lab.Findings, error) {
		opts.Progress = progress
		return scale.Measure(ctx, driver, opts)
	})
	return cmd
}
