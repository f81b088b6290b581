package cli

import (
	"context"

	"github.com/spf13/cobra"

	"aether/engine"
	"aether/rest"
	"aether/sandbox"
)

func rollbackCommand() *cobra.Command {
	var req engine.RollbackRequest
	cmd := &cobra.Command{
		Use:   "rollback ID (--snapshot SNAPSHOT | --mark NAME)",
		Short: "Have a sandbox be again what it was",
		Long: `Have a sandbox be again what it was at a snapshot of its own, or at a mark, under the same id. What
it is now is lost, and connections to it are cut. If it fails, the sandbox goes on as it is.`,
		Example: "  aether rollback 7k2m9x0r4c8v1b5n3q6w --snapshot 4c8v1b5n3q6w7k2m9x0r\n  aether rollback 7k2m9x0r4c8v1b5n3q6w --mark before",
		Args:    exactly(1, "one id"), ValidArgsFunction: completeIDs(1, engine.Running, engine.Paused),
	}
	cmd.Flags().StringVar(&req.Snapshot, "snapshot", "", "the snapshot to go back to")
	cmd.Flags().StringVar(&req.Mark, "mark", "", "the mark to go back to")
	fidelity := filesFlag(cmd, "take the snapshot's files alone, and no processes")
	if err := cmd.RegisterFlagCompletionFunc("snapshot", completeSnapshots); err != nil {
		panic(err) // the flag was registered just above
	}
	asJSON := jsonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		req.Fidelity = fidelity()
		switch {
		case (req.Snapshot == "") == (req.Mark == ""):
			return sandbox.Invalidf("--snapshot", "name a snapshot or a --mark, and one of them")
		case req.Mark != "" && req.Fidelity != "":
			return sandbox.Invalidf("--files", "it cannot be combined with --mark, which has everything")
		}
		return withDaemon(cmd, func(ctx context.Context, client *rest.Client) error {
			now, err := client.Rollback(ctx, args[0], req)
			if err != nil || !*asJSON {
				return err
			}
			return printJSON(cmd, now)
		})
	}
	return cmd
}
