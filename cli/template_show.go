package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"aether/cli/holder"
	"aether/sandbox"
)

func templateShowCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "show NAME", Short: "Show a template, and the tree of its forks", Args: exactly(1, "one name"),
		Example:           "  aether template show py\n  aether template show py --tree\n  aether template show py --json",
		ValidArgsFunction: completeTemplates,
	}
	tree := cmd.Flags().Bool("tree", false, "print the fork tree only")
	json := jsonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		info, err := askHolder(cmd.Context(), templates(), args[0])
		switch {
		case err == nil && *json:
			return printJSON(cmd, info)
		case err == nil && *tree:
			return printText(cmd, strings.Join(treeLines(info.Tree), "\n"))
		case err == nil:
			return printText(cmd, templateText(info))
		case sandbox.ClassOf(err) == sandbox.Unavailable:
			return showUnheld(cmd, args[0], *json)
		}
		return err
	}
	return cmd
}

// showUnheld shows what is left of a template whose holder does not answer.
func showUnheld(cmd *cobra.Command, name string, json bool) error {
	s, err := summarize(cmd.Context(), templates(), name)
	if err != nil {
		return err
	}
	if json {
		return printJSON(cmd, s)
	}
	text := fmt.Sprintf("%s  %s\n  runs   %s\n  image  %s", s.Name, s.State, visible(s.Runs), visible(s.Image))
	if s.Log != "" {
		text += "\n  log    " + oneLine(s.Log)
	}
	if s.State == stateDead {
		text += "\n  remove it with: aether template rm " + name
	}
	return printText(cmd, text)
}

func templateText(info holder.Info) string {
	s := summaryOf(info)
	rows := [][]string{{"  state", stateReady}, {"  runs", s.Runs}, {"  image", s.Image},
		{"  driver", fmt.Sprintf("%s (%v boundary, %s forks)", info.Driver, info.Boundary, info.Fidelity)},
		{"  sandbox", info.ID}, {"  held by", fmt.Sprintf("process %d", info.Holder)},
		{"  prepared", fmt.Sprintf("%s, in %s", info.Prepared.Local().Format(time.DateTime), milliseconds(info.Took))},
		{"  memory", sizeText(s.Memory)}, {"  children", fmt.Sprintf("%d living", *s.Living)}}
	if s.Ahead != nil {
		rows = append(rows, []string{"  ahead", fmt.Sprintf("%d ready", *s.Ahead)})
	}
	return visible(info.Name) + "\n" + columns(rows) + "\n  forks\n    " + strings.Join(treeLines(info.Tree), "\n    ")
}
