package cli

import (
	"cmp"
	"context"
	"time"

	"github.com/spf13/cobra"

	"aether/engine"
	"aether/rest"
)

func getCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "get ID",
		Short:   "Show a sandbox that stays",
		Long:    "Show what is known of a sandbox: its state, which driver runs it and why, what it was made of and\nwhen its time is over; of one that has ended lately, the cause.",
		Example: "  aether get 7k2m9x0r4c8v1b5n3q6w\n  aether get 7k2m9x0r4c8v1b5n3q6w --json",
		Args:    exactly(1, "one id"), ValidArgsFunction: completeIDs(1),
	}
	asJSON := jsonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return withDaemon(cmd, func(ctx context.Context, client *rest.Client) error {
			found, err := client.Get(ctx, args[0])
			if err != nil {
				return err
			}
			return printSandbox(cmd, found, *asJSON)
		})
	}
	return cmd
}

func printSandbox(cmd *cobra.Command, s engine.Sandbox, asJSON bool) error {
	if asJSON {
		return printJSON(cmd, s)
	}
	var rows [][]string
	for _, row := range [][]string{
		{"id", s.ID}, {"state", string(s.State)}, {"tenant", s.Tenant}, {"driver", s.Driver}, {"why", s.Why}, {"from", originOf(s)},
		{"created", timeText(s.Created)}, {"expires", timeText(s.Expires)}, {"then", thenText(s)}, {"outlives", outlivesText(s)},
		{"metadata", metadataText(s.Metadata)}, {"kept", string(s.Fidelity)}, {"reason", s.Reason}, {"ended", timeText(s.EndedAt)}, {"cause", causeText(s)},
	} {
		if row[1] != "" {
			rows = append(rows, row)
		}
	}
	return printText(cmd, columns(rows))
}

func timeText(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.Local().Format(time.DateTime)
}

func thenText(s engine.Sandbox) string {
	if s.Expires.IsZero() {
		return ""
	}
	return string(cmp.Or(s.Then, engine.ThenKill))
}

func outlivesText(s engine.Sandbox) string {
	switch {
	case s.Keep && s.AutoResume:
		return "the daemon; resumed when used"
	case s.Keep:
		return "the daemon"
	case s.AutoResume:
		return "a pause: resumed when used"
	}
	return ""
}

func causeText(s engine.Sandbox) string {
	if s.Exit == nil {
		return ""
	}
	if s.Exit.Detail == "" {
		return string(s.Exit.Cause)
	}
	return string(s.Exit.Cause) + ": " + s.Exit.Detail
}
