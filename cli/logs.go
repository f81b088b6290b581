package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"aether/engine"
	"aether/guest"
	"aether/rest"
	"aether/sandbox"

	pb "aether/guest/wire/process"
)

func logsCommand() *cobra.Command {
	f := &logFlags{}
	cmd := &cobra.Command{
		Use:   "logs ID [PROCESS]",
		Short: "Print what commands in a sandbox have written that nobody has read",
		Long: `Print what the commands that run in a sandbox have written and nobody has read: all of them, or the
one of this number, which may have ended in the last half minute. The last 256 KiB of each are kept.
What was seen by exec, by shell or by --follow is not kept; what is printed here is.
With --console, print the last 64 KiB of the console of a machine instead: what its kernel says.`,
		Example: `  aether exec --detach 7k2m9x0r4c8v1b5n3q6w -- ./serve
  aether logs 7k2m9x0r4c8v1b5n3q6w
  aether logs --follow 7k2m9x0r4c8v1b5n3q6w 12
  aether logs --console 7k2m9x0r4c8v1b5n3q6w`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 2 {
				return nil
			}
			return exactly(1, "one id, and the number of a process if you like")(cmd, args)
		},
		ValidArgsFunction: completeIDs(1, engine.Running),
	}
	cmd.Flags().BoolVarP(&f.follow, "follow", "f", false, "go on with what one process writes, until it ends")
	cmd.Flags().BoolVar(&f.console, "console", false, "print the end of a machine's console instead")
	cmd.Flags().BoolVar(&f.json, "json", false, "print a list of processes with their output as JSON, or the console")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		pid, err := f.process(args)
		if err != nil {
			return err
		}
		return withDaemon(cmd, func(ctx context.Context, client *rest.Client) error {
			if f.console {
				return printConsole(ctx, cmd, client, args[0], f.json)
			}
			return ofSandbox(f.run(ctx, cmd, client.GuestOf(args[0], guest.ClientOptions{}), pid))
		})
	}
	return cmd
}

// logFlags are the flags of logs, as typed.
type logFlags struct{ follow, json, console bool }

// process is the number that was given, or 0.
func (f *logFlags) process(args []string) (int, error) {
	if f.follow && f.json {
		return 0, sandbox.Invalidf("--json", "it cannot be combined with --follow")
	}
	if f.console && (f.follow || len(args) > 1) {
		return 0, sandbox.Invalidf("--console", "it cannot be combined with --follow or a process")
	}
	if len(args) == 1 {
		return 0, nil
	}
	pid, err := strconv.ParseUint(args[1], 10, 31)
	if err != nil || pid == 0 {
		return 0, sandbox.Invalidf("process", "%.40q is the number of no process", args[1])
	}
	return int(pid), nil
}

// processLog is one process in the JSON answer of logs.
type processLog struct {
	Process int      `json:"process"`
	Command []string `json:"command,omitempty"`
	Tag     string   `json:"tag,omitempty"`
	// Exit is absent while it runs.
	Exit   *int   `json:"exit,omitempty"`
	Stdout stream `json:"stdout"`
	Stderr stream `json:"stderr"`
}

func (f *logFlags) run(ctx context.Context, cmd *cobra.Command, inside *guest.Client, pid int) error {
	list, err := processes(ctx, inside, pid)
	if err != nil {
		return err
	}
	switch {
	case f.follow && len(list) == 1:
		return followProcess(ctx, cmd, inside, list[0].Process)
	case f.follow:
		return &sandbox.Error{Class: sandbox.Invalid, Field: "process", Reason: fmt.Sprintf("%d processes run: one must be named", len(list)), Remedy: "see aether logs ID"}
	case f.json:
		return printLogs(ctx, cmd, inside, list)
	case len(list) == 0:
		printError(cmd, "aether: no command runs (start one with aether exec --detach)")
	}
	for i, p := range list {
		if pid == 0 {
			heading(cmd.OutOrStdout(), p, i == 0)
		}
		if _, err := inside.Look(ctx, p.Process, guest.Cmd{Stdout: cmd.OutOrStdout(), Stderr: cmd.ErrOrStderr()}); err != nil {
			return err
		}
	}
	return nil
}

// processes are those that run, or the one of the number.
func processes(ctx context.Context, inside *guest.Client, pid int) ([]processLog, error) {
	running, err := inside.Processes(ctx)
	if err != nil {
		return nil, err
	}
	list := []processLog{}
	for _, p := range running {
		if pid == 0 || pid == int(p.GetPid()) {
			list = append(list, processLog{Process: int(p.GetPid()), Command: commandLine(p.GetConfig()), Tag: p.GetTag()})
		}
	}
	if pid != 0 && len(list) == 0 {
		list = append(list, processLog{Process: pid}) // which may have ended just now
	}
	return list, nil
}

func commandLine(config *pb.ProcessConfig) []string {
	return append([]string{config.GetCmd()}, config.GetArgs()...)
}

// maxHeading bounds the command in a heading.
const maxHeading = 100

func heading(w io.Writer, p processLog, first bool) {
	line := visible(strings.Join(p.Command, " "))
	if len(line) > maxHeading {
		line = line[:maxHeading] + "..."
	}
	lead := "\n"
	if first {
		lead = ""
	}
	// A stream that cannot be written to is told by what follows.
	_, _ = fmt.Fprintf(w, "%s==> %d: %s <==\n", lead, p.Process, line)
}

func printLogs(ctx context.Context, cmd *cobra.Command, inside *guest.Client, list []processLog) error {
	for i := range list {
		var out, complaint capture
		over, err := inside.Look(ctx, list[i].Process, guest.Cmd{Stdout: &out, Stderr: &complaint})
		if err != nil {
			return err
		}
		if over != nil {
			code := exitStatus(*over, false)
			list[i].Exit = &code
		}
		list[i].Stdout, list[i].Stderr = out.stream(), complaint.stream()
	}
	return printJSON(cmd, list)
}

func followProcess(ctx context.Context, cmd *cobra.Command, inside *guest.Client, pid int) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	running, err := inside.Connect(ctx, pid, guest.Cmd{Stdout: cmd.OutOrStdout(), Stderr: cmd.ErrOrStderr()})
	if err != nil {
		return err
	}
	if _, err = running.Wait(); ctx.Err() != nil {
		return nil // who follows has enough
	}
	return err
}
