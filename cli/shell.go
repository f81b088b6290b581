package cli

import (
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"strconv"
	"sync/atomic"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"aether/engine"
	"aether/guest"
	"aether/sandbox"
)

// shellCommandLine is the shell of a sandbox, whichever its image has.
var shellCommandLine = []string{"/bin/sh", "-c", "command -v bash >/dev/null 2>&1 && exec bash; exec sh"}

func shellCommand() *cobra.Command {
	f, attach := &execFlags{}, 0
	cmd := &cobra.Command{
		Use:   "shell [flags] ID [-- COMMAND...]",
		Short: "Work in a sandbox on a terminal, which can be left and come back to",
		Long: `Work in a sandbox on a terminal: with the shell of its image, or with the command that is given.
Control-] pressed twice leaves the terminal, and what runs on it goes on; so it does when the
connection is lost. Its number is told then, by which --attach comes back to it.`,
		Example: `  aether shell 7k2m9x0r4c8v1b5n3q6w
  aether shell 7k2m9x0r4c8v1b5n3q6w -- python3
  aether shell --attach 12 7k2m9x0r4c8v1b5n3q6w`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 || attach != 0 && len(commandOf(args)) > 0 {
				return &sandbox.Error{Class: sandbox.Invalid, Field: "arguments", Reason: "one id, and a command unless --attach is given", Remedy: "usage: aether " + cmd.Use}
			}
			return nil
		},
		ValidArgsFunction: completeIDs(1, engine.Running, engine.Paused),
	}
	f.registerCommand(cmd)
	cmd.Flags().SetInterspersed(false) // flags after the command are the command's
	cmd.Flags().IntVar(&attach, "attach", 0, "come back to the terminal of this process")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return launchError(cmd, advised(f.shell(cmd, args[0], commandOf(args), attach)))
	}
	return cmd
}

// terminalSession is a command on a terminal that outlives the connection to it.
type terminalSession struct {
	foreground
	id       string
	detached atomic.Bool
}

func (f *execFlags) shell(cmd *cobra.Command, id string, args []string, attach int) error {
	f.input, f.terminal = true, true
	env, err := f.validate()
	if err != nil {
		return err
	}
	if attach < 0 {
		return sandbox.Invalidf("--attach", "%d is the number of no process", attach)
	}
	if in, ok := fileOf(cmd.InOrStdin()); !ok || !term.IsTerminal(in) {
		return &sandbox.Error{Class: sandbox.Invalid, Reason: "standard input is no terminal", Remedy: "use aether exec"}
	}
	if _, set := env["TERM"]; !set && os.Getenv("TERM") != "" {
		env["TERM"] = os.Getenv("TERM")
	}
	s := &terminalSession{foreground: foreground{joined: &f.streamFlags, cmd: cmd}, id: id}
	ctx, release := s.takeSignals(cmd.Context())
	defer release()
	client, err := openDaemon(ctx)
	if err != nil {
		return err
	}
	defer client.Close()
	if len(args) == 0 {
		args = shellCommandLine
	}
	command := s.command(args)
	command.Env, command.Dir = env, f.workdir
	return s.follow(ctx, f.inside(client, id), command, attach)
}

// follow starts the command or comes back to it, and stays until it ends or is left.
func (s *terminalSession) follow(ctx context.Context, inside *guest.Client, command guest.Cmd, attach int) error {
	s.leave = func() {
		s.detached.Store(true)
		s.cancel() // which leaves the process alone
	}
	command.Stdin = &detacher{from: command.Stdin, detach: s.leave}
	start := starting(inside)
	if attach != 0 {
		start = func(ctx context.Context, cmd guest.Cmd) (*guest.Running, error) {
			return comeBack(ctx, inside, attach, cmd)
		}
	}
	status, err := s.run(ctx, command, start)
	if s.detached.Load() {
		printError(s.cmd, "aether: left; it goes on: %s", s.again())
		return nil
	}
	if lost(err) && s.running != nil {
		return &sandbox.Error{Class: sandbox.Unavailable, Reason: "the connection is lost, and the process goes on", Remedy: s.again(), Err: err}
	}
	return s.finish(status, err)
}

func (s *terminalSession) finish(status guest.Status, err error) error {
	code, _, err := outcomeOf(status, err)
	if err != nil || code == 0 {
		return err
	}
	return exitCode(code)
}

// again is the command that comes back.
func (s *terminalSession) again() string {
	return "aether shell --attach " + formatPid(s.running.Pid()) + " " + s.id
}

// lost says that an error is of the way to a process and not of the process.
func lost(err error) bool {
	var chosen exitCode
	if err == nil || errors.As(err, &chosen) {
		return false
	}
	class := sandbox.ClassOf(err)
	return class == sandbox.Unavailable || class == sandbox.Internal
}

// comeBack connects to a process on a terminal, which it has draw itself anew by giving
// it another size and then ours. What is typed waits until then.
func comeBack(ctx context.Context, inside *guest.Client, pid int, cmd guest.Cmd) (*guest.Running, error) {
	drawn := make(chan struct{})
	defer close(drawn)
	cmd.Stdin = &gate{drawn, cmd.Stdin}
	running, err := inside.Connect(ctx, pid, cmd)
	if err != nil {
		err = ofSandbox(err)
		if sandbox.ClassOf(err) == sandbox.NotFound {
			err = &sandbox.Error{Class: sandbox.NotFound, Field: "--attach", Err: err, Remedy: "see aether logs"}
		}
		return nil, err
	}
	other := guest.Size{Cols: cmd.Terminal.Cols, Rows: cmp.Or(cmd.Terminal.Rows-1, 2)}
	for _, size := range []guest.Size{other, *cmd.Terminal} {
		if err := running.Resize(ctx, size); err != nil {
			return nil, errors.Join(&sandbox.Error{Class: sandbox.Conflict, Field: "--attach", Reason: "the process " + formatPid(pid) + " has no terminal", Remedy: "see aether logs --follow", Err: err}, running.Close())
		}
	}
	return running, nil
}

// gate is a reader that waits for something before it reads.
type gate struct {
	until <-chan struct{}
	from  io.Reader
}

// Read implements io.Reader.
func (g *gate) Read(p []byte) (int, error) {
	<-g.until
	return g.from.Read(p)
}

func formatPid(pid int) string { return strconv.Itoa(pid) }
