// Package cli is the aether command: it reads arguments, asks the packages that
// do the work and prints their answers for people or as JSON. It decides nothing
// about sandboxes itself.
package cli

import (
	"context"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"aether/sandbox"
)

// Main runs the command line args, without the program's name, over the drivers
// of this build and gives the exit status: 0 for success, 2 for bad input, 1 for
// any other failure, or what the command itself chose.
func Main(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer, makers []sandbox.Maker) int {
	drivers := newDrivers(makers)
	root := newRoot(drivers, args...)
	// A nil list would make cobra read the arguments of the process.
	root.SetArgs(append([]string{}, args...))
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	status := report(stderr, root.ExecuteContext(ctx))
	if err := drivers.Close(ctx); err != nil {
		return max(status, report(stderr, err))
	}
	return status
}

// newRoot has the commands, or only the one that arguments begin with: to make all, with
// their flags, takes longer than what many of them do.
func newRoot(drivers *drivers, args ...string) *cobra.Command {
	root := &cobra.Command{
		Use:   "aether",
		Short: "Run and judge sandboxes for agents",
		Long:  "Aether runs fleets of short-lived sandboxes for agents on any isolation system,\nand judges those systems honestly.",
		Example: `  aether run -- python3 -c 'print(6*7)'
  id=$(aether create --timeout 1h) && aether shell "$id"
  aether rank
  aether compare aethervm firecracker --why
  aether systems`,
		Args:              knownCommand,
		RunE:              func(root *cobra.Command, _ []string) error { return root.Help() },
		SilenceErrors:     true,
		SilenceUsage:      true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
	}
	root.SetFlagErrorFunc(flagError)
	root.SetHelpCommand(helpCommand())
	all := groups(drivers)
	for _, g := range all {
		root.AddGroup(&cobra.Group{ID: g.id, Title: g.title})
	}
	root.SetHelpCommandGroupID("host")
	if len(args) > 0 {
		for _, g := range all {
			for _, e := range g.commands {
				if slices.Contains(strings.Fields(e.names), args[0]) {
					g.add(root, e)
					return root
				}
			}
		}
	}
	root.Version = readBuild().String()
	root.SetVersionTemplate("{{.Version}}\n")
	for _, g := range all {
		for _, e := range g.commands {
			g.add(root, e)
		}
	}
	return root
}

// group is what commands are under in the help.
type group struct {
	id, title string
	commands  []entry
}

// entry is a command that is made when it is needed, under its name and aliases.
type entry struct {
	names string
	make  func() *cobra.Command
}

func (g group) add(root *cobra.Command, e entry) {
	c := e.make()
	c.GroupID = g.id
	root.AddCommand(c)
}

func groups(d *drivers) []group {
	with := func(make func(*drivers) *cobra.Command) func() *cobra.Command {
		return func() *cobra.Command { return make(d) }
	}
	return []group{
		{"sandboxes", "Sandboxes:", []entry{
			{"run", with(runCommand)}, {"create", with(createCommand)}, {"list ls ps", with(listCommand)}, {"get", getCommand},
			{"exec", execCommand}, {"shell", shellCommand}, {"cp", copyCommand}, {"logs", logsCommand}, {"pause", pauseCommand},
			{"resume", resumeCommand}, {"fork", forkCommand}, {"snapshot", snapshotCommand}, {"mark", markCommand},
			{"rollback", rollbackCommand}, {"set", setCommand}, {"rm remove", removeCommand}, {"events", eventsCommand},
			{"template", with(templateCommand)}, {"pool", poolCommand}, {"volume", volumeCommand}, {"net", netCommand},
			{"port-forward", portForwardCommand}, {"secret", secretCommand},
		}},
		{"daemon", "The daemon that holds them:", []entry{
			{"serve", with(serveCommand)}, {"key", keyCommand}, {"quota", quotaCommand}, {"prune", pruneCommand},
		}},
		{"agents", "Agents:", []entry{
			{"agent", with(agentCommand)}, {"mcp", with(mcpCommand)}, {"tools", toolsCommand},
		}},
		{"systems", "Isolation systems:", []entry{
			{"rank", with(rankCommand)}, {"compare", with(compareCommand)}, {"profile", with(profileCommand)},
			{"systems", with(systemsCommand)}, {"choose", with(chooseCommand)}, {"lab", with(labCommand)},
		}},
		{"host", "This host and this build:", []entry{
			{"doctor", with(doctorCommand)}, {"kernel", with(kernelCommand)}, {"bench", with(benchCommand)},
			{"version", versionCommand}, {"completion", completionCommand},
		}},
	}
}

// knownCommand refuses every argument that reaches the root: what is a command
// was dispatched before.
func knownCommand(root *cobra.Command, args []string) error {
	if len(args) > 0 {
		return unknownName("command", args[0], commandNames(root))
	}
	return nil
}

func commandNames(parent *cobra.Command) []string {
	var names []string
	for _, c := range parent.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
	}
	return names
}
