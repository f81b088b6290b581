package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"aether/sandbox"
)

func agentRemoveCommand() *cobra.Command {
	var keep int
	cmd := &cobra.Command{
		Use:   "rm [flags] [RUN...]",
		Short: "Remove transcripts of runs",
		Long: `Remove the transcripts of runs, which nothing else removes: those that are named, or with --keep all but
the newest so many. What is removed is printed.`,
		Example: "  aether agent rm 20260102-150405-k3v9\n  aether agent rm --keep 20",
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
			runs, _ := agentRuns() // without which there is nothing to complete
			return runs, cobra.ShellCompDirectiveNoFileComp
		},
	}
	cmd.Flags().IntVar(&keep, "keep", 0, "remove all but the newest so many")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		counted := cmd.Flags().Changed("keep")
		switch {
		case counted && len(args) > 0:
			return &sandbox.Error{Class: sandbox.Invalid, Field: "--keep", Reason: "either runs are named, or so many are kept"}
		case counted && keep < 0:
			return sandbox.Invalidf("--keep", "%d is negative", keep)
		case !counted && len(args) == 0:
			return &sandbox.Error{Class: sandbox.Invalid, Field: "run", Reason: "none is named", Remedy: "name runs, or use --keep"}
		}
		if counted {
			runs, err := agentRuns()
			if err != nil {
				return err
			}
			args = runs[:max(0, len(runs)-keep)]
		}
		return removeRuns(cmd, args)
	}
	return cmd
}

// removeRuns removes transcripts, and says which.
func removeRuns(cmd *cobra.Command, runs []string) error {
	dir, err := transcriptDir()
	if err != nil {
		return err
	}
	var errs []error
	for _, run := range runs {
		// A name has no separator: it leads nowhere else.
		err := error(&sandbox.Error{Class: sandbox.NotFound, Field: "run", Reason: fmt.Sprintf("there is no run %.80q", run)})
		if sandbox.IsName(run, 64) {
			if removed := os.Remove(filepath.Join(dir, run+transcriptExt)); !os.IsNotExist(removed) {
				err = removed
			}
		}
		if err == nil {
			err = printText(cmd, run)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
