package cli

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"aether/lab"
	"aether/lab/fork"
	"aether/sandbox"
)

func benchCommand(drivers *drivers) *cobra.Command {
	cmd := &cobra.Command{
		Use: "bench", Short: "Measure sandboxes on this host",
		Example: "  aether bench fork\n  aether bench scale --alive 1000 --json",
		Args:    knownSubcommand,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(benchForkCommand(drivers), benchScaleCommand(drivers))
	return cmd
}

func benchForkCommand(drivers *drivers) *cobra.Command {
	var opts fork.Options
	cmd := &cobra.Command{
		Use: "fork", Short: "Measure what forking a running sandbox costs",
		Long: "Measure, in one interleaved run of a minute or two, how long a fork of a running interpreter takes to its\n" +
			"first reply, how long its source stands still, what crowds of children cost and how fast a pool\n" +
			"gives one, beside fresh starts and plain forks. A missed target is a result and no failure.",
		Example: "  aether bench fork\n  aether bench fork --rounds 5 --children 100 --json",
		Args:    noArguments,
	}
	cmd.Flags().IntVar(&opts.Rounds, "rounds", fork.DefaultRounds, "measure each start this many times")
	cmd.Flags().IntVar(&opts.Children, "children", fork.DefaultChildren, "make crowds of at most this many children")
	measures(cmd, drivers, func(ctx context.Context, driver sandbox.Driver, progress *lab.Progress) (lab.Findings, error) {
		opts.Progress = progress
		if peer, err := drivers.named("gvisor"); err == nil {
			opts.Restorers = []sandbox.Driver{peer}
		}
		return fork.Measure(ctx, driver, opts)
	})
	return cmd
}

// measures has a command measure one driver, which --driver names, and print what was
// found.
func measures(cmd *cobra.Command, drivers *drivers, measure func(context.Context, sandbox.Driver, *lab.Progress) (lab.Findings, error)) {
	driver := cmd.Flags().String("driver", "", "the system to measure, instead of the best")
	json := jsonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		list, err := drivers.candidates(*driver, sandbox.AnyBoundary)
		if err != nil {
			return err
		}
		ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		found, err := measure(ctx, list.First(), lab.NewProgress(progressOf(cmd, *json)))
		if err != nil {
			return err
		}
		if *json {
			return printJSON(cmd, found)
		}
		return printText(cmd, found.Text())
	}
}

// progressOf is a terminal that is standard error, or nothing.
func progressOf(cmd *cobra.Command, json bool) io.Writer {
	if stderr := cmd.ErrOrStderr(); !json && screenOf(stderr).width > 0 {
		return stderr
	}
	return nil
}
