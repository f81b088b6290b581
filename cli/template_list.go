package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"aether/cli/holder"
	"aether/engine"
	"aether/sandbox"
)

// States of a template.
const (
	stateReady     = "ready"
	statePreparing = "preparing"
	stateDead      = "dead"
)

// templateSummary is a template as list and prepare print it.
type templateSummary struct {
	Name    string `json:"name"`
	State   string `json:"state"`
	Holder  int    `json:"holder,omitempty"`
	Sandbox string `json:"sandbox,omitempty"`
	Driver  string `json:"driver,omitempty"`
	Image   string `json:"image"`
	// Runs is what is left running: a language, or a command.
	Runs      string     `json:"runs"`
	Prepared  *time.Time `json:"prepared,omitempty"`
	PrepareMS float64    `json:"prepare_ms,omitempty"`
	Memory    *int64     `json:"memory_bytes,omitempty"`
	Living    *int       `json:"living_children,omitempty"`
	Forks     *int       `json:"forks_remembered,omitempty"`
	Ahead     *int       `json:"ready_children,omitempty"`
	// Log is why a holder ended, where it could say so.
	Log string `json:"log,omitempty"`
}

func summaryOf(info holder.Info) templateSummary {
	living, forks := 0, 0
	for _, n := range info.Tree {
		if n.Parent == "" {
			continue
		}
		if forks++; n.Ended == nil {
			living++
		}
	}
	s := templateSummary{Name: info.Name, State: stateReady, Holder: info.Holder, Sandbox: info.ID, Driver: info.Driver,
		Image: imageOf(info.Recipe), Runs: residentText(info.Recipe), Prepared: &info.Prepared, PrepareMS: float64(info.Took.Microseconds()) / 1000,
		Memory: info.Stats.MemoryBytes, Living: &living, Forks: &forks}
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

// askTime bounds the wait for the answer of one holder.
const askTime = 5 * time.Second

// summarize asks the holder of a template, or says what is known without it.
func summarize(ctx context.Context, dir holder.Dir, name string) (templateSummary, error) {
	info, err := askHolder(ctx, dir, name)
	if err == nil {
		return summaryOf(info), nil
	}
	s := templateSummary{Name: name, State: stateDead, Image: "-", Runs: "-"}
	held, err := dir.Held(name)
	if err != nil {
		return s, err
	}
	if held {
		s.State = statePreparing
	}
	if m, err := dir.Manifest(name); err == nil {
		s.Holder, s.Image, s.Runs = m.Holder, imageOf(m.Recipe), residentText(m.Recipe)
	}
	s.Log, err = dir.Log(name)
	return s, err
}

func askHolder(ctx context.Context, dir holder.Dir, name string) (info holder.Info, err error) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	client, err := dir.Dial(ctx, name)
	if err != nil {
		return info, err
	}
	defer client.Close()
	return client.Info(ctx)
}

func templateListCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List the templates that are kept", Args: noArguments,
		Example: "  aether template list\n  aether template list --json",
	}
	json := jsonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		dir := templates()
		names, err := dir.Names()
		if err != nil {
			return err
		}
		list := []templateSummary{}
		for _, name := range names {
			s, err := summarize(cmd.Context(), dir, name)
			if err != nil {
				return err
			}
			list = append(list, s)
		}
		if *json {
			return printJSON(cmd, list)
		}
		return printTemplates(cmd, list)
	}
	return cmd
}

func printTemplates(cmd *cobra.Command, list []templateSummary) error {
	if len(list) == 0 {
		printError(cmd, "aether: no template is kept (make one with aether template prepare)")
		return nil
	}
	rows := [][]string{{"name", "state", "children", "memory", "image", "runs"}}
	for _, s := range list {
		rows = append(rows, []string{s.Name, s.State, countText(s.Living), sizeText(s.Memory), s.Image, s.Runs})
	}
	return printText(cmd, columns(rows))
}

func countText(n *int) string {
	if n == nil {
		return "-"
	}
	return fmt.Sprint(*n)
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
