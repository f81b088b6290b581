package cli

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"aether/lab"
	"aether/lab/lifecycle"
	"aether/sandbox"
)

const (
	checkRounds    = 30
	maxCheckRounds = 10_000
)

func labCheckCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "check", Short: "Have another program time what the lab times",
		Long: "Have hyperfine and the lab time the same plain commands of bwrap, runc and Docker in turns, from their start to their end, and\n" +
			"compare the ratios to bwrap. The exit status is 1 if they are more than 20% apart. A busy host makes both vary.",
		Example: "  aether lab check\n  aether lab check --rounds 100 --json",
		Args:    noArguments,
	}
	rounds := cmd.Flags().Int("rounds", checkRounds, "time each command this many `times`")
	json := jsonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if *rounds < 10 || *rounds > maxCheckRounds {
			return sandbox.Invalidf("--rounds", "%d is not between 10 and %d", *rounds, maxCheckRounds)
		}
		ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		found, err := lifecycle.Verify(ctx, *rounds, lab.NewProgress(progressOf(cmd, *json)))
		if err != nil {
			return err
		}
		if *json {
			err = printJSON(cmd, found)
		} else {
			err = printText(cmd, found.Text())
		}
		if err == nil && !found.Agree {
			err = &sandbox.Error{Class: sandbox.Conflict, Op: "lab", Reason: fmt.Sprintf("the lab and %s do not agree", found.By), Remedy: "repeat it when the host is quiet"}
		}
		return err
	}
	return cmd
}
