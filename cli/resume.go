package cli

import (
	"github.com/spf13/cobra"

	"aether/engine"
	"aether/rest"
)

func resumeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "resume ID...",
		Short:   "Have paused sandboxes go on",
		Long:    "Have paused sandboxes go on where they were: with the same ids, files and, where memory was kept,\nprocesses.",
		Example: "  aether resume 7k2m9x0r4c8v1b5n3q6w\n  aether resume $(aether list --quiet --state paused)",
		Args:    someIDs, ValidArgsFunction: completeIDs(manyIDs, engine.Paused),
	}
	return changing(cmd, (*rest.Client).Resume)
}
