package cli

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"aether/engine"
	"aether/rest"
	"aether/sandbox"
)

func netShowCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "show ID",
		Short:   "Show what a sandbox may reach",
		Example: "  aether net show 7k2m9x0r4c8v1b5n3q6w\n  aether net show 7k2m9x0r4c8v1b5n3q6w --json",
		Args:    exactly(1, "one id"), ValidArgsFunction: completeIDs(1),
	}
	asJSON := jsonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return withDaemon(cmd, func(ctx context.Context, client *rest.Client) error {
			found, err := client.Get(ctx, args[0])
			if err != nil {
				return err
			}
			return printNetwork(cmd, found.Spec.Network, *asJSON)
		})
	}
	return cmd
}

func netSetCommand() *cobra.Command {
	f := &networkFlags{fixed: true}
	cmd := &cobra.Command{
		Use:   "set ID",
		Short: "Change what a sandbox may reach",
		Long: `Change what a sandbox with a policy may reach to what the flags say, and to nothing else:
without flags, to nothing at all. It holds at once, also for connections that are open, which are cut
if they are not allowed any more. A sandbox that is paused has it when it is resumed.`,
		Example: `  aether net set 7k2m9x0r4c8v1b5n3q6w --allow packages --allow api.example.com:443
  aether net set 7k2m9x0r4c8v1b5n3q6w --set-header 'api.example.com Authorization: Bearer ${API_TOKEN}'
  aether net set 7k2m9x0r4c8v1b5n3q6w`,
		Args: exactly(1, "one id"), ValidArgsFunction: completeIDs(1, engine.Running, engine.Paused),
	}
	f.registerNetwork(cmd)
	asJSON := jsonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		n, err := f.network()
		if err != nil {
			return err
		}
		if err := (sandbox.Spec{Network: n}).Validate(); err != nil {
			return asFlag(err)
		}
		return withDaemon(cmd, func(ctx context.Context, client *rest.Client) error {
			if err := keepMode(ctx, client, args[0], &n); err != nil {
				return err
			}
			now, err := client.SetNetwork(ctx, args[0], n)
			if err != nil {
				return asFlag(err)
			}
			return printNetwork(cmd, now.Spec.Network, *asJSON)
		})
	}
	return cmd
}

// keepMode has a policy hold the way that a sandbox's own does: what the flags say is about
// hosts, and not about that.
func keepMode(ctx context.Context, client *rest.Client, id string, n *sandbox.Network) error {
	found, err := client.Get(ctx, id)
	if err == nil && found.Spec.Network.Mode.Filtered() {
		n.Mode = found.Spec.Network.Mode
	}
	return err
}

func printNetwork(cmd *cobra.Command, n sandbox.Network, asJSON bool) error {
	if asJSON {
		return printJSON(cmd, n)
	}
	return printText(cmd, columns(networkRows(n)))
}

// networkRows are what there is to say of a policy, a line for each entry.
func networkRows(n sandbox.Network) [][]string {
	mode := string(n.Mode)
	if n.Mode == sandbox.NoNetwork {
		mode = "none"
	}
	rows := [][]string{{"mode", mode}}
	add := func(title string, entries []string) {
		for i, entry := range entries {
			if i > 0 {
				title = ""
			}
			rows = append(rows, []string{title, entry})
		}
	}
	add("allow", n.Allow)
	add("deny", n.Deny)
	add("requests", ruleLines(n.HTTP))
	if n.Proxy != "" {
		add("proxy", []string{n.Proxy})
	}
	if n.Connections > 0 {
		add("connections", []string{strconv.Itoa(n.Connections)})
	}
	if n.Rate > 0 {
		add("rate", []string{sizeText(&n.Rate) + "/s"})
	}
	return rows
}

func ruleLines(rules []sandbox.HTTPRule) (lines []string) {
	for _, r := range rules {
		line := r.Host
		if len(r.Methods) > 0 {
			line = strings.Join(r.Methods, ",") + " " + line
		}
		if len(r.Paths) > 0 {
			line += " " + strings.Join(r.Paths, " ")
		}
		if len(r.Headers) > 0 {
			line += ", sets " + strings.Join(slices.Sorted(maps.Keys(r.Headers)), ", ")
		}
		lines = append(lines, line)
	}
	return lines
}

func netLogCommand() *cobra.Command {
	var denied bool
	cmd := &cobra.Command{
		Use:   "log ID",
		Short: "Show what a sandbox reached, and what it was denied",
		Long: `Show what was decided about the network of a sandbox since it was made or last resumed: each name and
connection once, with how often and by which entry of its policy. The last 512 that differ are kept.`,
		Example: "  aether net log 7k2m9x0r4c8v1b5n3q6w\n  aether net log 7k2m9x0r4c8v1b5n3q6w --denied --json",
		Args:    exactly(1, "one id"), ValidArgsFunction: completeIDs(1, engine.Running),
	}
	cmd.Flags().BoolVar(&denied, "denied", false, "only what was denied")
	asJSON := jsonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return withDaemon(cmd, func(ctx context.Context, client *rest.Client) error {
			log, err := client.NetworkLog(ctx, args[0])
			if err != nil {
				return err
			}
			if denied {
				log.Decisions = slices.DeleteFunc(log.Decisions, func(d sandbox.NetworkDecision) bool { return d.Verdict != sandbox.VerdictDenied })
			}
			if *asJSON {
				return printJSON(cmd, log)
			}
			return printDecisions(cmd, log)
		})
	}
	return cmd
}

func printDecisions(cmd *cobra.Command, log rest.NetworkDecisions) error {
	if len(log.Decisions) == 0 {
		printError(cmd, "aether: nothing was asked of its network")
	}
	if log.Missed > 0 {
		printError(cmd, "aether: %d decisions are not known any more", log.Missed)
	}
	if len(log.Decisions) == 0 {
		return nil
	}
	s := screenOf(cmd.OutOrStdout())
	t := table{titles: []string{"last", "count", "verdict", "kind", "what"}}
	for _, d := range log.Decisions {
		t.rows = append(t.rows, []cell{text(d.Time.Local().Format(time.TimeOnly)), text(strconv.FormatInt(max(d.Count, 1), 10)),
			{d.Verdict, verdictStyles[d.Verdict]}, text(visible(d.Kind)), text(visible(whatText(d)))})
	}
	return printText(cmd, t.withNotes("why", func(row int) []string { return []string{visible(whyText(log.Decisions[row]))} }, s.width).render(s))
}

var verdictStyles = map[string]style{sandbox.VerdictAllowed: green, sandbox.VerdictDenied: red, sandbox.VerdictFailed: yellow}

// reachOf is the name or the address that a decision is about, as an entry.
func reachOf(d sandbox.NetworkDecision) sandbox.Reach {
	to := sandbox.Reach{Name: d.Name, First: d.Port, Last: d.Port, UDP: d.Kind == "udp"}
	if d.Name == "" && d.Address.IsValid() {
		to.Prefix = netip.PrefixFrom(d.Address, d.Address.BitLen())
	}
	return to
}

func whatText(d sandbox.NetworkDecision) string {
	if d.Name == "" && !d.Address.IsValid() {
		return "a name that cannot be"
	}
	return reachOf(d).String()
}

func whyText(d sandbox.NetworkDecision) string {
	switch {
	case d.Kind == "end":
		return fmt.Sprintf("%s sent, %s received", sizeText(&d.Sent), sizeText(&d.Received))
	case d.Reason == "":
		return d.Rule
	case d.Rule == "":
		return d.Reason
	}
	return d.Reason + ": " + d.Rule
}
