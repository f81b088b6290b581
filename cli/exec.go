package cli

import (
	"context"
	"errors"
	"syscall"

	"github.com/spf13/cobra"

	"aether/engine"
	"aether/guest"
	"aether/rest"
	"aether/sandbox"
)

// execFlags are the flags of exec, as typed.
type execFlags struct {
	streamFlags
	env           []string
	workdir, user string
	detach        bool
}

func execCommand() *cobra.Command {
	f := &execFlags{}
	cmd := &cobra.Command{
		Use:   "exec [flags] ID -- COMMAND [ARGUMENT...]",
		Short: "Run a command in a sandbox that stays",
		Long: `Run a command in a sandbox that stays. Its output, as it comes, and its exit status are the
command's own: 128+n if signal n ended it, 124 if its time was over, 127 if there is no such
command, 126 if it cannot be executed, and 125 if the sandbox or the daemon failed. A first
interrupt is passed on to the command, a second kills it.`,
		Example: `  aether exec 7k2m9x0r4c8v1b5n3q6w -- python3 -c 'print(6*7)'
  aether exec -i 7k2m9x0r4c8v1b5n3q6w -- sh -c 'cat > /tmp/data' < data
  aether exec -it 7k2m9x0r4c8v1b5n3q6w -- bash
  aether exec -e DEBUG=1 -w /srv -u nobody --timeout 30s 7k2m9x0r4c8v1b5n3q6w -- ./serve
  aether exec --detach 7k2m9x0r4c8v1b5n3q6w -- ./serve`,
		Args: idAndCommand, ValidArgsFunction: completeIDs(1, engine.Running, engine.Paused),
	}
	f.registerStreams(cmd)
	flags := cmd.Flags()
	flags.SetInterspersed(false) // flags after the command are the command's
	flags.BoolVar(&f.json, "json", false, "print exit and output as JSON")
	flags.BoolVarP(&f.detach, "detach", "d", false, "print the number of the process and leave it running; see aether logs")
	f.registerCommand(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return launchError(cmd, advised(f.run(cmd, args[0], commandOf(args))))
	}
	return cmd
}

// registerCommand registers the flags that say how a command is run.
func (f *execFlags) registerCommand(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringArrayVarP(&f.env, "env", "e", nil, "set K=V for the command; repeatable")
	flags.StringVarP(&f.workdir, "workdir", "w", "", "directory to start in")
	flags.StringVarP(&f.user, "user", "u", "", "user of the sandbox to run as")
}

// commandOf is what follows the id. Since flags may be given before the id alone, the
// dashes after it are an argument to the parser.
func commandOf(args []string) []string {
	if len(args) > 1 && args[1] == "--" {
		return args[2:]
	}
	return args[1:]
}

func idAndCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 || len(commandOf(args)) == 0 || commandOf(args)[0] == "" {
		return &sandbox.Error{Class: sandbox.Invalid, Field: "arguments", Reason: "an id and a command are needed", Remedy: "usage: aether " + cmd.Use}
	}
	return nil
}

func (f *execFlags) run(cmd *cobra.Command, id string, args []string) error {
	env, err := f.validate()
	if err != nil {
		return err
	}
	e := &foreground{joined: &f.streamFlags, cmd: cmd}
	ctx, release := e.takeSignals(cmd.Context())
	defer release()
	client, err := openDaemon(ctx)
	if err != nil {
		return err
	}
	defer client.Close()
	inside := f.inside(client, id)
	command := e.command(args)
	command.Env, command.Dir = env, f.workdir
	if f.detach {
		return startDetached(ctx, cmd, inside, command, id, f.json)
	}
	e.end = e.kill
	status, err := e.run(ctx, command, starting(inside))
	return f.finish(e, status, err)
}

func (f *execFlags) validate() (map[string]string, error) {
	if err := f.validateStreams(); err != nil {
		return nil, err
	}
	if f.detach && (f.input || f.terminal || f.timeout > 0) {
		return nil, sandbox.Invalidf("--detach", "it cannot be combined with -i, -t or --timeout")
	}
	return parseEnv(f.env)
}

// inside is a client of the guest service as the user who was asked for.
func (f *execFlags) inside(client *rest.Client, id string) *guest.Client {
	return client.GuestOf(id, guest.ClientOptions{User: f.user})
}

// starting starts a command. What fails because of the sandbox or the daemon is told from
// what fails because of the command.
func starting(inside *guest.Client) func(context.Context, guest.Cmd) (*guest.Running, error) {
	return func(ctx context.Context, cmd guest.Cmd) (*guest.Running, error) {
		running, err := inside.Start(ctx, cmd)
		return running, ofSandbox(err)
	}
}

// ofSandbox is an error of a guest client as what the daemon said, if that refused.
func ofSandbox(err error) error {
	var outer *sandbox.Error
	if !errors.As(err, &outer) || outer.Err == nil {
		return err
	}
	var refusal *sandbox.Error
	if errors.As(outer.Err, &refusal) {
		return refusal
	}
	return err
}

// kill ends the command alone.
func (f *foreground) kill() {
	ctx, cancel := context.WithTimeout(context.Background(), signalTime)
	defer cancel()
	_ = f.running.Signal(ctx, syscall.SIGKILL) // which fails for one that has just ended
}

// startedCommand is the JSON answer of exec for a command that is left running.
type startedCommand struct {
	Sandbox string `json:"sandbox"`
	Process int    `json:"process"`
}

func startDetached(ctx context.Context, cmd *cobra.Command, inside *guest.Client, command guest.Cmd, id string, asJSON bool) error {
	pid, err := inside.StartDetached(ctx, command)
	if err != nil {
		return ofSandbox(err)
	}
	if asJSON {
		return printJSON(cmd, startedCommand{id, pid})
	}
	return printText(cmd, formatPid(pid))
}

// execResult is the JSON answer of exec.
type execResult struct {
	Exit        int    `json:"exit"`
	Signal      string `json:"signal,omitempty"`
	TimedOut    bool   `json:"timed_out,omitempty"`
	OutOfMemory bool   `json:"out_of_memory,omitempty"`
	Stdout      stream `json:"stdout"`
	Stderr      stream `json:"stderr"`
}

func (f *execFlags) finish(e *foreground, status guest.Status, err error) error {
	code, timeout, err := outcomeOf(status, err)
	switch {
	case err != nil:
		return err
	case f.json:
		result := execResult{Exit: code, TimedOut: timeout, OutOfMemory: status.OutOfMemory, Stdout: e.streams.out.stream(), Stderr: e.streams.err.stream()}
		if status.Signal != 0 {
			result.Signal = status.Signal.String()
		}
		if err := printJSON(e.cmd, result); err != nil {
			return err
		}
	case timeout:
		e.explainTimeout()
	case status.OutOfMemory:
		printError(e.cmd, "aether: the sandbox reached its memory limit (aether create --memory)")
	}
	if code == 0 {
		return nil
	}
	return exitCode(code)
}
