package cli

import (
	"cmp"
	"context"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"aether/internal/host/storedir"
	"aether/network/list"
	"aether/sandbox"
)

func netCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "net",
		Short: "Show and change what sandboxes may reach",
		Long: `Show and change what a sandbox may reach, and what it asked for; and the lists by whose names it is
allowed something, so that nobody has to type hosts.`,
		Example: `  aether net show 7k2m9x0r4c8v1b5n3q6w
  aether net set 7k2m9x0r4c8v1b5n3q6w --allow packages --allow api.example.com:443
  aether net log 7k2m9x0r4c8v1b5n3q6w --denied
  aether net lists packages`,
		Args: knownSubcommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(netShowCommand(), netSetCommand(), netLogCommand(), netListsCommand())
	return cmd
}

type netListsFlags struct {
	lists   string
	refresh bool
	timeout time.Duration
}

func netListsCommand() *cobra.Command {
	f := &netListsFlags{}
	cmd := &cobra.Command{
		Use:   "lists [NAME]",
		Short: "Show the lists, their entries and who named each",
		Long: `Show the lists, or one of them: what each allows, which tool and setting named it, and which tools
were skipped and why.

packages is what pip, npm, go, cargo and apt of this host would use, as they say themselves, with the
hosts that their indexes point to. The answer is kept for an hour. public is every public address.
Others are files NAME.list, with a line for each HOST[:PORT[-PORT]][/udp] or other list. A credential
that was found is never shown.`,
		Example: `  aether net lists
  aether net lists packages --refresh
  aether net lists models --lists ./lists --json`,
		Args:              atMostOne("one name, or none for all lists"),
		ValidArgsFunction: f.complete,
	}
	flags := cmd.Flags()
	flags.StringVar(&f.lists, "lists", "", "the directory with the lists of this host, or one of its files (default "+list.PathVariable+" or "+list.DefaultPath+")")
	flags.BoolVar(&f.refresh, "refresh", false, "ask the tools again, whatever they answered before")
	flags.DurationVar(&f.timeout, "timeout", list.DefaultTimeout, "how long each tool, and each index, may take to answer")
	asJSON := jsonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if f.timeout <= 0 {
			return sandbox.Invalidf("--timeout", "%v is no time to answer in", f.timeout)
		}
		ctx, drawn := showProgress(cmd.Context(), cmd, *asJSON)
		found, err := f.collect(ctx, args)
		drawn()
		switch {
		case err != nil:
			return err
		case *asJSON && len(args) == 1:
			return printJSON(cmd, found[0])
		case *asJSON:
			return printJSON(cmd, found)
		}
		return printText(cmd, listsText(found, screenOf(cmd.OutOrStdout())))
	}
	return cmd
}

// collect gives the list that is named, or all.
func (f *netListsFlags) collect(ctx context.Context, names []string) (found []list.List, err error) {
	host := f.host()
	known, err := host.Names()
	if err != nil {
		return nil, err
	}
	if len(names) == 0 {
		names = known
	}
	for _, name := range names {
		if !slices.Contains(known, name) {
			return nil, unknownName("list", name, known)
		}
		one, err := host.List(ctx, name)
		if err != nil {
			return nil, err
		}
		found = append(found, one)
	}
	return found, nil
}

func (f *netListsFlags) host() list.Host {
	return list.Host{Dir: filepath.Join(storedir.Lasting(), "lists"), Path: cmp.Or(f.lists, os.Getenv(list.PathVariable)), Timeout: f.timeout, Refresh: f.refresh}
}

func (f *netListsFlags) complete(_ *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	names, err := f.host().Names()
	if len(args) > 0 || err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return beginning(typed, names), cobra.ShellCompDirectiveNoFileComp
}

func listsText(found []list.List, s screen) string {
	var parts []string
	for _, l := range found {
		parts = append(parts, listText(l, s))
	}
	return strings.Join(parts, "\n\n")
}

func listText(l list.List, s screen) string {
	lines := []string{s.paint(bold, l.Name) + ": " + visible(l.Source)}
	if len(l.Entries) > 0 {
		lines = append(lines, entriesTable(l.Entries, s.width).render(s))
	}
	for _, name := range l.Includes {
		lines = append(lines, "includes "+name)
	}
	for _, text := range l.Skipped {
		lines = append(lines, s.paint(yellow, "skipped ")+visible(text))
	}
	for _, text := range l.Notes {
		lines = append(lines, s.paint(dim, "note    ")+visible(text))
	}
	return strings.Join(lines, "\n")
}

func entriesTable(entries []list.Entry, width int) table {
	t := table{titles: []string{"allow", "private", "credential"}}
	for _, e := range entries {
		private, credential := "", ""
		switch {
		case e.Private:
			private = "private"
		case e.Withheld:
			private = "withheld"
		case len(e.At) > 0:
			private = "at " + joined(e.At)
		}
		if e.Credential != nil {
			credential = e.Credential.String()
		}
		t.rows = append(t.rows, []cell{text(visible(e.Allow)), text(private), text(credential)})
	}
	return t.withNotes("from", func(row int) []string { return []string{visible(entries[row].From)} }, width)
}

func joined(addrs []netip.Addr) string {
	var texts []string
	for _, a := range addrs {
		texts = append(texts, a.String())
	}
	return strings.Join(texts, " ")
}

func atMostOne(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) > 1 {
			return exactly(1, what)(cmd, args)
		}
		return nil
	}
}
