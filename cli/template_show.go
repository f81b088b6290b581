package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"aether/engine"
	"aether/rest"
)

// shownTemplate is the JSON answer of show.
type shownTemplate struct {
	engine.TemplateInfo
	Sandbox string `json:"sandbox"`
	// Tree is who was forked from whom, oldest first.
	Tree []engine.Node `json:"tree"`
}

func templateShowCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "show NAME", Short: "Show a template, and the tree of its forks", Args: exactly(1, "one name"),
		Example:           "  aether template show py\n  aether template show py:stable --tree\n  aether template show py@2 --json",
		ValidArgsFunction: completeTemplates,
	}
	tree := cmd.Flags().Bool("tree", false, "print the fork tree only")
	json := jsonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return withDaemon(cmd, func(ctx context.Context, client *rest.Client) error {
			shown, err := showTemplate(ctx, client, args[0])
			switch {
			case err != nil:
				return err
			case *json:
				return printJSON(cmd, shown)
			case *tree:
				return printText(cmd, strings.Join(treeLines(shown.Tree), "\n"))
			}
			return printText(cmd, templateText(shown))
		})
	}
	return cmd
}

func showTemplate(ctx context.Context, client *rest.Client, name string) (shown shownTemplate, err error) {
	if shown.TemplateInfo, err = client.GetTemplate(ctx, name); err != nil {
		return shown, err
	}
	shown.Sandbox = shown.ID
	shown.Tree, err = client.TemplateTree(ctx, shown.ID)
	return shown, err
}

func templateText(info shownTemplate) string {
	s := summaryOf(info.TemplateInfo)
	rows := [][]string{{"  state", stateText(info.TemplateInfo)}, {"  version", strings.Join(append([]string{fmt.Sprint(s.Version)}, s.Tags...), " ")},
		{"  runs", s.Runs}, {"  image", s.Image}, {"  sandbox", info.ID}}
	if info.State == engine.TemplateReady {
		rows = append(rows, []string{"  driver", fmt.Sprintf("%s (%v boundary, %s forks)", info.Driver, info.Boundary, info.Fidelity)},
			[]string{"  prepared", fmt.Sprintf("%s, in %s", info.Prepared.Local().Format(time.DateTime), milliseconds(info.Took))},
			[]string{"  memory", sizeText(s.Memory)})
	}
	rows = append(rows, []string{"  children", fmt.Sprintf("%d living", s.Living)})
	if s.Ahead != nil {
		rows = append(rows, []string{"  ahead", poolText(info.TemplateInfo)})
	}
	text := visible(info.Name) + "\n" + columns(rows)
	if lines := commandLines(info.Commands); len(lines) > 0 {
		text += "\n  commands\n  " + strings.Join(lines, "\n  ")
	}
	if len(info.Tree) > 0 {
		text += "\n  forks\n    " + strings.Join(treeLines(info.Tree), "\n    ")
	}
	return text
}

// stateText is the state of a template, with what there is to say about it.
func stateText(info engine.TemplateInfo) string {
	text := string(info.State)
	for _, more := range []string{info.Step, info.Reason} {
		if more != "" {
			text += ": " + oneLine(more)
		}
	}
	return text
}

// poolText is how a pool does.
func poolText(info engine.TemplateInfo) string {
	text := fmt.Sprintf("%d of %d ready", info.Pool.Ready, info.Ahead)
	if info.Pool.Reason != "" {
		text += ": " + oneLine(info.Pool.Reason)
	}
	return text
}
