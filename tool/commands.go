package tool

import (
	"context"
	"errors"
	"strings"
	"syscall"
	"time"

	"aether/guest"
	"aether/sandbox"
)

const (
	runTime    = time.Minute
	maxRunTime = time.Hour
	maxWait    = 5 * time.Minute
	killTime   = 5 * time.Second
	// lookAgain is how often it is looked whether a process that is waited for has ended.
	lookAgain = 100 * time.Millisecond
)

// program is a command to start.
type program struct {
	of
	Command string   `json:"command" max:"131072" jsonschema:"for sh -c"`
	Workdir string   `json:"workdir,omitempty"`
	Env     []string `json:"env,omitempty" jsonschema:"each NAME=VALUE"`
}

type runArgs struct {
	program
	Stdin    string `json:"stdin,omitempty" max:"4194304"`
	TimeoutS int    `json:"timeout_s,omitempty" jsonschema:"default 60, at most 3600"`
	MaxBytes int    `json:"max_bytes,omitempty" jsonschema:"of each output, default 16384"`
}

type startArgs struct {
	program
	Input bool `json:"input,omitempty" jsonschema:"it will be sent input"`
}

type processArgs struct {
	of
	Process int `json:"process"`
}

type outputArgs struct {
	processArgs
	WaitS    int  `json:"wait_s,omitempty" jsonschema:"wait so long for its end, at most 300"`
	Offset   *int `json:"offset,omitempty" jsonschema:"byte to begin with; default: the last max_bytes"`
	MaxBytes int  `json:"max_bytes,omitempty" jsonschema:"default 16384"`
}

type inputArgs struct {
	processArgs
	Text  string `json:"text,omitempty" max:"1048576"`
	Close bool   `json:"close,omitempty" jsonschema:"end its input afterwards"`
}

type signalArgs struct {
	processArgs
	Signal string `json:"signal" enum:"TERM,KILL,INT,HUP,QUIT,USR1,USR2,STOP,CONT"`
}

func commandTools() []*Tool {
	return []*Tool{
		define("command_run", Writes, "Run a shell command to its end. A non-zero exit_code is an answer, not an error. Long output is cut to its end: command_output gives the rest.", (*Session).run).inCompact(),
		define("command_start", Writes, "Start a shell command in the background, as a server.", (*Session).start).inCompact(),
		define("command_output", Reads, "What a command has written (the last 256 KiB while it runs), and how it ended.", (*Session).output).inCompact(),
		define("command_input", Writes, "Write to a command that was started with input.", (*Session).input),
		define("command_signal", Destroys, "Send a signal to a command.", (*Session).signal),
		define("command_list", Reads, "List the commands that run.", (*Session).processes),
	}
}

// commandEnd is how a command ended.
type commandEnd struct {
	// ExitCode is absent while it runs.
	ExitCode *int `json:"exit_code,omitempty"`
	// Signal is what killed it, if one did.
	Signal      int  `json:"signal,omitempty"`
	TimedOut    bool `json:"timed_out,omitempty"`
	OutOfMemory bool `json:"out_of_memory,omitempty"`
}

func endOf(status guest.Status, timedOut bool) commandEnd {
	code := status.Code
	if status.Signal != 0 || timedOut {
		code = 128 + int(status.Signal)
	}
	if timedOut {
		code = 124
	}
	return commandEnd{&code, int(status.Signal), timedOut, status.OutOfMemory}
}

// Ran is what a command that has ended gave, or one that runs has so far.
type Ran struct {
	Sandbox string `json:"sandbox"`
	Process int    `json:"process"`
	Running bool   `json:"running"`
	commandEnd
	Stdout Stream `json:"stdout"`
	Stderr Stream `json:"stderr"`
}

func (p program) cmd() (guest.Cmd, error) {
	env, err := environment(p.Env)
	if strings.TrimSpace(p.Command) == "" {
		err = sandbox.Invalidf("command", "it is empty")
	}
	return guest.Cmd{Path: "sh", Args: []string{"-c", p.Command}, Env: env, Dir: p.Workdir}, err
}

func (s *Session) run(ctx context.Context, in runArgs) (ran Ran, err error) {
	cmd, err := in.cmd()
	if err != nil {
		return ran, err
	}
	took, err := seconds("timeout_s", in.TimeoutS, int(maxRunTime.Seconds()))
	if err != nil {
		return ran, err
	}
	if took == 0 {
		took = runTime
	}
	window, err := newWindow(nil, in.MaxBytes)
	if err != nil {
		return ran, err
	}
	ended, err := s.runToEnd(ctx, in, cmd, took)
	if err != nil {
		return ran, err
	}
	end := endOf(ended.Status, ended.TimedOut)
	s.state.keep(&output{in.Sandbox, ended.Process, ended.Stdout, ended.Stderr, end})
	return Ran{Sandbox: in.Sandbox, Process: ended.Process, commandEnd: end, Stdout: window.of(ended.Stdout, ended.StdoutDropped), Stderr: window.of(ended.Stderr, ended.StderrDropped)}, nil
}

// Ended is a command that was run to its end.
type Ended struct {
	Process int
	guest.Status
	TimedOut bool
	// Stdout and Stderr are the first MiB of each.
	Stdout, Stderr               []byte
	StdoutDropped, StderrDropped bool
}

// Runner is a Backend that runs a command to its end by fewer messages than a client of the
// guest service does. Only Path, Args, Env and Dir of the Cmd count.
type Runner interface {
	Run(ctx context.Context, id string, cmd guest.Cmd, stdin string, most time.Duration) (Ended, error)
}

// maxShort is the input of a command that a Runner is given.
const maxShort = 128 << 10

func (s *Session) runToEnd(ctx context.Context, in runArgs, cmd guest.Cmd, took time.Duration) (ended Ended, err error) {
	if runner, ok := s.opts.Backend.(Runner); ok && len(in.Stdin) <= maxShort {
		err = s.awake(ctx, in.Sandbox, took, func() error {
			ended, err = runner.Run(ctx, in.Sandbox, cmd, in.Stdin, took)
			return err
		})
		return ended, err
	}
	if in.Stdin != "" {
		cmd.Stdin = strings.NewReader(in.Stdin)
	}
	err = s.inside(ctx, in.Sandbox, took, func(client *guest.Client) error {
		ended, err = runInside(ctx, client, cmd, took)
		return err
	})
	return ended, err
}

func runInside(ctx context.Context, client *guest.Client, cmd guest.Cmd, took time.Duration) (ended Ended, err error) {
	ctx, cancel := context.WithTimeout(ctx, took)
	defer cancel()
	var out, complaints head
	cmd.Stdout, cmd.Stderr = &out, &complaints
	running, err := client.Start(ctx, cmd)
	if err != nil {
		return ended, err
	}
	status, err := running.Wait()
	timedOut := sandbox.ClassOf(err) == sandbox.Timeout
	if err != nil && !timedOut {
		return ended, errors.Join(err, abandon(ctx, client, running.Pid()))
	}
	return Ended{running.Pid(), status, timedOut, out.kept, complaints.kept, out.dropped, complaints.dropped}, nil
}

// abandon ends a command whose caller is gone.
func abandon(ctx context.Context, client *guest.Client, pid int) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), killTime)
	defer cancel()
	if err := client.Signal(ctx, pid, syscall.SIGKILL); sandbox.ClassOf(err) != sandbox.NotFound {
		return err
	}
	return nil
}

// Started is a command that goes on.
type Started struct {
	Sandbox string `json:"sandbox"`
	Process int    `json:"process"`
}

func (s *Session) start(ctx context.Context, in startArgs) (made Started, err error) {
	cmd, err := in.cmd()
	if err != nil {
		return made, err
	}
	cmd.StdinPipe = in.Input
	err = s.inside(ctx, in.Sandbox, 0, func(client *guest.Client) error {
		pid, err := client.StartDetached(ctx, cmd)
		s.state.forgetOutput(in.Sandbox, pid)
		made = Started{in.Sandbox, pid}
		return err
	})
	return made, err
}

// process checks the number of one.
func (p processArgs) validate() error {
	if p.Process <= 0 || p.Process > 1<<30 {
		return sandbox.Invalidf("process", "%d is the number of no process", p.Process)
	}
	return nil
}

// lost says where to look for the processes that there are.
func (p processArgs) lost(err error) error {
	return advise(err, []sandbox.Class{sandbox.NotFound}, "command_list", map[string]any{"sandbox": p.Sandbox})
}

func (s *Session) output(ctx context.Context, in outputArgs) (ran Ran, err error) {
	if err := in.validate(); err != nil {
		return ran, err
	}
	wait, err := seconds("wait_s", in.WaitS, int(maxWait.Seconds()))
	if err != nil {
		return ran, err
	}
	window, err := newWindow(in.Offset, in.MaxBytes)
	if err != nil {
		return ran, err
	}
	err = s.inside(ctx, in.Sandbox, wait, func(client *guest.Client) error {
		if o := s.state.find(in.Sandbox, in.Process); o != nil {
			ran = Ran{Sandbox: in.Sandbox, Process: in.Process, commandEnd: o.end, Stdout: window.of(o.stdout, false), Stderr: window.of(o.stderr, false)}
			return nil
		}
		if err := awaitEnd(ctx, client, in.Process, wait); err != nil {
			return err
		}
		var out, complaints head
		over, err := client.Look(ctx, in.Process, guest.Cmd{Stdout: &out, Stderr: &complaints})
		if err != nil {
			return in.lost(err)
		}
		ran = Ran{Sandbox: in.Sandbox, Process: in.Process, Running: over == nil, Stdout: window.of(out.kept, false), Stderr: window.of(complaints.kept, false)}
		if over != nil {
			ran.commandEnd = endOf(*over, false)
			// The guest service forgets those that have ended.
			s.state.keep(&output{in.Sandbox, in.Process, out.kept, complaints.kept, ran.commandEnd})
		}
		return nil
	})
	return ran, err
}

// awaitEnd waits until a process has ended, or for so long.
func awaitEnd(ctx context.Context, client *guest.Client, pid int, most time.Duration) error {
	for until := time.Now().Add(most); time.Now().Before(until); {
		running, err := isRunning(ctx, client, pid)
		if err != nil || !running {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(lookAgain):
		}
	}
	return nil
}

func isRunning(ctx context.Context, client *guest.Client, pid int) (bool, error) {
	list, err := client.Processes(ctx)
	for _, p := range list {
		if int(p.GetPid()) == pid {
			return true, nil
		}
	}
	return false, err
}

func (s *Session) input(ctx context.Context, in inputArgs) (Done, error) {
	if err := in.validate(); err != nil {
		return Done{}, err
	}
	if in.Text == "" && !in.Close {
		return Done{}, sandbox.Invalidf("text", "there is neither text nor close")
	}
	err := s.inside(ctx, in.Sandbox, 0, func(client *guest.Client) error {
		if in.Text != "" {
			if err := client.SendInput(ctx, in.Process, []byte(in.Text)); err != nil {
				return in.lost(err)
			}
		}
		if in.Close {
			return in.lost(client.CloseInput(ctx, in.Process))
		}
		return nil
	})
	return Done{"sent"}, err
}

var signals = map[string]syscall.Signal{"TERM": syscall.SIGTERM, "KILL": syscall.SIGKILL, "INT": syscall.SIGINT, "HUP": syscall.SIGHUP, "QUIT": syscall.SIGQUIT,
	"USR1": syscall.SIGUSR1, "USR2": syscall.SIGUSR2, "STOP": syscall.SIGSTOP, "CONT": syscall.SIGCONT}

func (s *Session) signal(ctx context.Context, in signalArgs) (Done, error) {
	if err := in.validate(); err != nil {
		return Done{}, err
	}
	err := s.inside(ctx, in.Sandbox, 0, func(client *guest.Client) error {
		return in.lost(client.Signal(ctx, in.Process, signals[in.Signal]))
	})
	return Done{"sent"}, err
}

// Processes are the commands that run in a sandbox.
type Processes struct {
	Processes []Process `json:"processes"`
}

// Process is one of them.
type Process struct {
	Process int    `json:"process"`
	Command string `json:"command"`
}

func (s *Session) processes(ctx context.Context, in of) (list Processes, err error) {
	list.Processes = []Process{}
	err = s.inside(ctx, in.Sandbox, 0, func(client *guest.Client) error {
		running, err := client.Processes(ctx)
		for _, p := range running {
			if len(list.Processes) == maxList {
				break
			}
			words := append([]string{p.GetConfig().GetCmd()}, p.GetConfig().GetArgs()...)
			list.Processes = append(list.Processes, Process{int(p.GetPid()), clip(strings.Join(words, " "), 200)})
		}
		return err
	})
	return list, err
}
