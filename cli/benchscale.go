package cli

import (
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"aether/lab"
	"aether/lab/scale"
	"aether/sandbox"
)

func benchScaleCommand(drivers *drivers) *cobra.Command {
	var opts scale.Options
	var driver string
	cmd := &cobra.Command{
		Use: "scale", Short: "Measure whether sandboxes cost more the more of them live",
		Long: "Measure what it costs to make, use, fork and end a sandbox beside 10, 100, 1,000, 4,000 and 10,000 others,\n" +
			"and what each of those holds. A level that the host refuses is skipped, with the reason. A missed target is\n" +
			"a result and no failure.",
		Example: "  aether bench scale\n  aether bench scale --alive 1000 --rounds 20 --json",
		Args:    noArguments,
	}
	cmd.Flags().IntVar(&opts.Rounds, "rounds", scale.DefaultRounds, "measure everything this many times at each level, up and down")
	cmd.Flags().IntVar(&opts.Alive, "alive", scale.DefaultAlive, "have at most this many sandboxes alive")
	cmd.Flags().StringVar(&driver, "driver", "", "the system to measure, instead of the best")
	json := jsonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		list, err := drivers.candidates(driver, sandbox.AnyBoundary)
		if err != nil {
			return err
		}
		ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		opts.Progress = lab.NewProgress(progressOf(cmd, *json))
		report, err := scale.Measure(ctx, first(list), opts)
		if err != nil {
			return err
		}
		if *json {
			return printJSON(cmd, report)
		}
		return printText(cmd, report.Text())
	}
	return cmd
}
