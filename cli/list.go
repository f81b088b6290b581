package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"aether/engine"
	"aether/rest"
	"aether/sandbox"
)

// listFlags are the flags of list, as typed.
type listFlags struct {
	all, quiet               bool
	states, metadata         []string
	driver, template, tenant string
}

func listCommand(drivers *drivers) *cobra.Command {
	f := &listFlags{}
	cmd := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls", "ps"},
		Short:   "List the sandboxes that stay",
		Long:    "List the sandboxes that run or are paused, newest first; with --all those that ended lately too.",
		Example: `  aether list
  aether list --all --metadata task=42
  aether list --state paused --json
  aether rm $(aether list --quiet --metadata task=42)`,
		Args: noArguments,
	}
	f.register(cmd, drivers)
	asJSON := jsonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		q, err := f.query()
		if err != nil {
			return err
		}
		return withDaemon(cmd, func(ctx context.Context, client *rest.Client) error {
			list, err := listAll(ctx, client, q)
			switch {
			case err != nil:
				return err
			case *asJSON:
				return printJSON(cmd, list)
			}
			return f.print(cmd, list)
		})
	}
	return cmd
}

var stateNames = []string{string(engine.Running), string(engine.Paused), string(engine.Ended)}

func (f *listFlags) register(cmd *cobra.Command, drivers *drivers) {
	flags := cmd.Flags()
	flags.BoolVarP(&f.all, "all", "a", false, "list those that ended lately too")
	flags.BoolVarP(&f.quiet, "quiet", "q", false, "print ids alone")
	flags.StringArrayVar(&f.states, "state", nil, "those in this state: running, paused or ended; repeatable")
	flags.StringArrayVar(&f.metadata, "metadata", nil, "those with this K=V; repeatable")
	flags.StringVar(&f.driver, "driver", "", "those of this system")
	flags.StringVar(&f.template, "template", "", "those that were made of this template")
	flags.StringVar(&f.tenant, "tenant", "", "those of this tenant, for operators")
	for flag, values := range map[string][]string{"state": stateNames, "driver": drivers.Names()} {
		if err := cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)); err != nil {
			panic(err) // the flag was registered just above
		}
	}
}

func (f *listFlags) query() (q engine.Query, err error) {
	q = engine.Query{Tenant: f.tenant, Driver: f.driver, Template: f.template}
	for _, name := range f.states {
		if !slices.Contains(stateNames, name) {
			return q, unknownName("--state", name, stateNames)
		}
		q.States = append(q.States, engine.State(name))
	}
	if len(f.states) > 0 && f.all {
		return q, sandbox.Invalidf("--all", "it cannot be combined with --state")
	}
	if len(f.states) == 0 && !f.all {
		q.States = []engine.State{engine.Running, engine.Paused}
	}
	if len(f.metadata) > 0 {
		q.Metadata, err = parseMetadata(f.metadata)
	}
	return q, err
}

// listAll gives every page.
func listAll(ctx context.Context, client *rest.Client, q engine.Query) ([]engine.Sandbox, error) {
	list := []engine.Sandbox{}
	for {
		page, err := client.List(ctx, q)
		if err != nil {
			return nil, err
		}
		list = append(list, page.Sandboxes...)
		if page.Next == "" {
			return list, nil
		}
		q.After = page.Next
	}
}

func (f *listFlags) print(cmd *cobra.Command, list []engine.Sandbox) error {
	if len(list) == 0 {
		if !f.quiet {
			printError(cmd, "aether: there is no sandbox (make one with aether create)")
		}
		return nil
	}
	if f.quiet {
		ids := make([]string, len(list))
		for i, s := range list {
			ids[i] = s.ID
		}
		return printText(cmd, strings.Join(ids, "\n"))
	}
	return printText(cmd, sandboxTable(list, time.Now()).render(screenOf(cmd.OutOrStdout())))
}

func sandboxTable(list []engine.Sandbox, now time.Time) table {
	t := table{titles: []string{"id", "state", "driver", "made", "ends", "from", "metadata"}}
	for _, s := range list {
		t.rows = append(t.rows, []cell{text(s.ID), stateCell(s.State), text(visible(s.Driver)), text(ago(s.Created, now)), text(endText(s, now)), text(visible(originOf(s))), text(visible(metadataText(s.Metadata)))})
	}
	return t
}

func stateCell(s engine.State) cell {
	return cell{visible(string(s)), map[engine.State]style{engine.Running: green, engine.Paused: yellow, engine.Ended: dim}[s]}
}

// originOf is what a sandbox was made of.
func originOf(s engine.Sandbox) string {
	switch {
	case s.Parent != "":
		return "fork of " + s.Parent
	case s.Template != "":
		return "template " + s.Template
	case s.Snapshot != "":
		return "snapshot " + s.Snapshot
	case s.Spec.Image == "":
		return sandbox.HostImage
	}
	return s.Spec.Image
}

// endText is when and how a sandbox ends, or has ended.
func endText(s engine.Sandbox, now time.Time) string {
	switch {
	case s.State == engine.Ended && s.Exit != nil:
		return visible(string(s.Exit.Cause)) + " " + ago(s.EndedAt, now)
	case s.Expires.IsZero():
		return "-"
	case s.Then == engine.ThenPause || s.Then == engine.ThenPauseFiles:
		return "pause in " + span(s.Expires.Sub(now))
	}
	return "in " + span(s.Expires.Sub(now))
}

func ago(t, now time.Time) string { return span(now.Sub(t)) + " ago" }

// span is a duration as people say it, in its largest unit.
func span(d time.Duration) string {
	d = max(d, 0)
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}

func metadataText(m map[string]string) string {
	var parts []string
	for _, key := range slices.Sorted(maps.Keys(m)) {
		parts = append(parts, key+"="+m[key])
	}
	return strings.Join(parts, " ")
}
