package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"aether/engine"
	"aether/rest"
	"aether/sandbox"
)

// templateSummary is a version of a template as list and prepare print it.
type templateSummary struct {
	Name    string               `json:"name"`
	Version int                  `json:"version"`
	Tags    []string             `json:"tags,omitempty"`
	Latest  bool                 `json:"latest"`
	State   engine.TemplateState `json:"state"`
	Reason  string               `json:"reason,omitempty"`
	Sandbox string               `json:"sandbox,omitempty"`
	Driver  string               `json:"driver,omitempty"`
	Image   string               `json:"image"`
	// Runs is what is left running: a language, or a command.
	Runs      string     `json:"runs"`
	Prepared  *time.Time `json:"prepared,omitempty"`
	PrepareMS float64    `json:"prepare_ms,omitempty"`
	// Commands is what became of the commands of the recipe.
	Commands []engine.PreparedCommand `json:"commands,omitempty"`
	Memory   *int64                   `json:"memory_bytes,omitempty"`
	Living   int                      `json:"living_children"`
	Forks    int                      `json:"forks_remembered"`
	Ahead    *int                     `json:"ready_children,omitempty"`
}

func summaryOf(info engine.TemplateInfo) templateSummary {
	s := templateSummary{Name: info.Name, Version: info.Version, Tags: info.Tags, Latest: info.Latest, State: info.State, Reason: info.Reason,
		Sandbox: info.ID, Driver: info.Driver, Image: imageOf(info.Recipe), Runs: residentText(info), Living: info.Living, Forks: info.Forks, Commands: info.Commands}
	if info.State == engine.TemplateReady {
		s.Prepared, s.PrepareMS = &info.Prepared, float64(info.Took.Microseconds())/1000
	}
	if info.Stats != nil {
		s.Memory = info.Stats.MemoryBytes
	}
	if info.Pool != nil {
		s.Ahead = &info.Pool.Ready
	}
	return s
}

func imageOf(r engine.Recipe) string {
	if r.Spec.Image == "" {
		return sandbox.HostImage
	}
	return r.Spec.Image
}

func templateListCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List the templates that are kept", Args: noArguments,
		Example: "  aether template list\n  aether template list --json",
	}
	json := jsonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return withDaemon(cmd, func(ctx context.Context, client *rest.Client) error {
			all, err := allTemplates(ctx, client)
			if err != nil {
				return err
			}
			list := []templateSummary{}
			for _, info := range all {
				list = append(list, summaryOf(info))
			}
			if *json {
				return printJSON(cmd, list)
			}
			return printTemplates(cmd, list)
		})
	}
	return cmd
}

func printTemplates(cmd *cobra.Command, list []templateSummary) error {
	if len(list) == 0 {
		printError(cmd, "aether: no template is kept (make one with aether template prepare)")
		return nil
	}
	rows := [][]string{{"name", "version", "state", "children", "memory", "image", "runs"}}
	for _, s := range list {
		rows = append(rows, []string{s.Name, strings.Join(append([]string{fmt.Sprint(s.Version)}, s.Tags...), " "), string(s.State),
			fmt.Sprint(s.Living), sizeText(s.Memory), s.Image, s.Runs})
	}
	return printText(cmd, columns(rows))
}

func sizeText(n *int64) string {
	if n == nil {
		return "-"
	}
	unit, name := unitOf(*n)
	return fmt.Sprintf("%.1f %s", float64(*n)/unit, name)
}

// columns puts texts below each other; the last column is as long as it is. A text may
// be of any making: each stays in its line.
func columns(rows [][]string) string {
	for _, row := range rows {
		for i, text := range row {
			row[i] = visible(text)
		}
	}
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, text := range row[:len(row)-1] {
			widths[i] = max(widths[i], len(text))
		}
	}
	var b strings.Builder
	for n, row := range rows {
		if n > 0 {
			b.WriteByte('\n')
		}
		for i, text := range row {
			fmt.Fprintf(&b, "%-*s", widths[i], text)
			if i < len(row)-1 {
				b.WriteString("  ")
			}
		}
	}
	return b.String()
}
