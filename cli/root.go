// Package cli is the aether command: it reads arguments, asks the packages that
// do the work and prints their answers for people or as JSON. It decides nothing
// about sandboxes itself.
package cli

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"aether/sandbox"
)

// Main runs the command line args, without the program's name, over the drivers
// of this build and gives the exit status: 0 for success, 2 for bad input, 1 for
// any other failure, or what the command itself chose.
func Main(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer, makers []sandbox.Maker) int {
	drivers := newDrivers(makers)
	root := newRoot(drivers)
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

func newRoot(drivers *drivers) *cobra.Command {
	root := &cobra.Command{
		Use:   "aether",
		Short: "Run and judge sandboxes for agents",
		Long:  "Aether runs fleets of short-lived sandboxes for agents on any isolation system,\nand judges those systems honestly.",
		Example: `  aether run -- python3 -c 'print(6*7)'
  id=$(aether create --timeout 1h) && aether shell "$id"
  aether rank
  aether compare aethervm firecracker --why
  aether systems`,
		Version:           readBuild().String(),
		Args:              knownCommand,
		RunE:              func(root *cobra.Command, _ []string) error { return root.Help() },
		SilenceErrors:     true,
		SilenceUsage:      true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
	}
	root.SetVersionTemplate("{{.Version}}\n")
	root.SetFlagErrorFunc(flagError)
	root.SetHelpCommand(helpCommand())
	addGroup(root, "sandboxes", "Sandboxes:", runCommand(drivers), createCommand(drivers), listCommand(drivers), getCommand(), execCommand(), shellCommand(), copyCommand(), logsCommand(),
		pauseCommand(), resumeCommand(), forkCommand(), snapshotCommand(), markCommand(), rollbackCommand(), setCommand(), removeCommand(), eventsCommand(), templateCommand(drivers), poolCommand(), volumeCommand(), netCommand(), portForwardCommand(), secretCommand())
	addGroup(root, "daemon", "The daemon that holds them:", serveCommand(drivers), keyCommand(), quotaCommand(), pruneCommand())
	addGroup(root, "agents", "Agents:", agentCommand(drivers), mcpCommand(drivers), toolsCommand())
	addGroup(root, "systems", "Isolation systems:", rankCommand(drivers), compareCommand(drivers), profileCommand(drivers), systemsCommand(drivers), chooseCommand(drivers), labCommand(drivers))
	addGroup(root, "host", "This host and this build:", doctorCommand(drivers), kernelCommand(drivers), benchCommand(drivers), versionCommand(), completionCommand())
	root.SetHelpCommandGroupID("host")
	return root
}

// addGroup adds commands under a title of the help.
func addGroup(root *cobra.Command, id, title string, commands ...*cobra.Command) {
	root.AddGroup(&cobra.Group{ID: id, Title: title})
	for _, c := range commands {
		c.GroupID = id
	}
	root.AddCommand(commands...)
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
