package cli

import (
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"aether/guest"
	"aether/sandbox"
)

// streamFlags are the flags that say how a command is joined to this program.
type streamFlags struct {
	input, terminal, json bool
	timeout               time.Duration
}

func (f *streamFlags) registerStreams(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.DurationVar(&f.timeout, "timeout", 0, "end the command after this long, such as 30s")
	flags.BoolVarP(&f.input, "interactive", "i", false, "pass standard input on")
	flags.BoolVarP(&f.terminal, "tty", "t", false, "run on a terminal")
}

func (f *streamFlags) validateStreams() error {
	if f.timeout < 0 {
		return sandbox.Invalidf("--timeout", "%v is negative", f.timeout)
	}
	return nil
}

// foreground is a command in a sandbox that has the streams, the terminal and the
// signals of this program.
type foreground struct {
	joined  *streamFlags
	cmd     *cobra.Command
	running *guest.Running
	streams streams
	// resize has the size of the command's terminal follow ours; nil without one.
	resize func(*guest.Running)
	// end ends the command at once, with its sandbox or alone.
	end func()
	// leave, if set, is what a signal does instead of being passed on.
	leave func()

	signals chan os.Signal
	cancel  context.CancelFunc // gives up what is waited for
	begun   func()             // from then on, signals are the command's
	// stopped is closed when a second signal asks for the end at once.
	stopped chan struct{}
}

// takeSignals has signals come here. Until the command has begun, one stops what is
// waited for.
func (f *foreground) takeSignals(ctx context.Context) (_ context.Context, release func()) {
	f.signals = make(chan os.Signal, 16)
	signal.Notify(f.signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	ctx, f.cancel = context.WithCancel(ctx)
	begun := make(chan struct{})
	f.begun = sync.OnceFunc(func() { close(begun) })
	go f.untilBegun(begun)
	return ctx, func() {
		f.begun()
		f.cancel()
		signal.Stop(f.signals)
	}
}

// untilBegun lets a signal stop the making of the sandbox, and the wait for its guest
// service.
func (f *foreground) untilBegun(begun <-chan struct{}) {
	select {
	case sig := <-f.signals:
		f.signals <- sig // for the command, if there will be one
		f.cancel()
	case <-begun:
	}
}

// command is what the arguments say, with the streams of this program.
func (f *foreground) command(args []string) guest.Cmd {
	f.streams.open(f)
	cmd := guest.Cmd{Stdout: f.streams.stdout, Stderr: f.streams.stderr}
	if len(args) > 0 {
		cmd.Path, cmd.Args = args[0], args[1:]
	}
	if f.joined.input {
		cmd.Stdin = f.cmd.InOrStdin()
	}
	return cmd
}

// run starts a command and carries its streams and signals until it has ended. Errors:
// Timeout if its time was over; an exitCode if a second signal ended it.
func (f *foreground) run(ctx context.Context, cmd guest.Cmd, start func(context.Context, guest.Cmd) (*guest.Running, error)) (guest.Status, error) {
	restore, err := f.terminal(&cmd)
	if err != nil {
		return guest.Status{}, err
	}
	defer restore()
	if f.joined.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, f.joined.timeout)
		defer cancel()
	}
	if f.running, err = start(ctx, cmd); err != nil {
		return guest.Status{}, err
	}
	f.begun()
	if f.resize != nil {
		f.resize(f.running)
	}
	done := make(chan struct{})
	defer close(done)
	f.stopped = make(chan struct{})
	go f.forward(done)
	return f.wait()
}

// signalTime is how long a guest service may take to pass a signal on. One that takes
// longer is silent, and its command is ended instead.
const signalTime = 10 * time.Second

// forward passes signals on. The command is in a session of its own, so the
// terminal's control-C reaches only us. A second one ends the command.
func (f *foreground) forward(done <-chan struct{}) {
	first, unheard := true, make(chan struct{}, 1)
	for {
		select {
		case sig := <-f.signals:
			if f.leave != nil {
				f.leave()
				return
			}
			if !first {
				f.stop()
				return
			}
			first = false
			go f.signal(sig.(syscall.Signal), unheard)
		case <-unheard:
			f.stop()
			return
		case <-done:
			return
		}
	}
}

// signal tells if nobody took the signal.
func (f *foreground) signal(sig syscall.Signal, unheard chan<- struct{}) {
	ctx, cancel := context.WithTimeout(context.Background(), signalTime)
	defer cancel()
	// A command that has just ended needs no signal.
	if err := f.running.Signal(ctx, sig); err != nil && ctx.Err() != nil {
		unheard <- struct{}{}
	}
}

// stop ends the command. Wait fails then, which is what was asked for; but a guest
// service that is silent is not waited for.
func (f *foreground) stop() {
	close(f.stopped)
	f.end()
	f.cancel()
}

func (f *foreground) wait() (guest.Status, error) {
	status, err := f.running.Wait()
	select {
	case <-f.stopped:
		return status, exitCode(statusSignalBase + int(syscall.SIGINT))
	default:
		return status, err
	}
}

// explainTimeout says what the exit status alone does not.
func (f *foreground) explainTimeout() {
	printError(f.cmd, "aether: the command was ended after %v (--timeout)", f.joined.timeout)
}

// outcomeOf is the exit status of a command that was followed to its end, and whether
// its time was over. Errors: why it could not be followed.
func outcomeOf(status guest.Status, err error) (code int, timeout bool, _ error) {
	timeout = sandbox.ClassOf(err) == sandbox.Timeout
	var chosen exitCode
	if errors.As(err, &chosen) || err != nil && !timeout {
		return 0, false, err
	}
	return exitStatus(status, timeout), timeout, nil
}

func exitStatus(status guest.Status, timeout bool) int {
	switch {
	case timeout:
		return statusTimeout
	case status.Signal != 0:
		return statusSignalBase + int(status.Signal)
	}
	return status.Code
}

// streams are where the command's output goes.
type streams struct {
	stdout, stderr io.Writer
	first          *firstByte
	out, err       capture
}

// open sends output to our own streams or, for JSON, keeps it.
func (st *streams) open(f *foreground) {
	st.first = &firstByte{}
	st.stdout, st.stderr = f.cmd.OutOrStdout(), f.cmd.ErrOrStderr()
	if f.joined.json {
		st.stdout, st.stderr = &st.out, &st.err
	}
	st.stdout = io.MultiWriter(st.first, st.stdout)
	st.stderr = io.MultiWriter(st.first, st.stderr)
}

// firstByte notes when output began.
type firstByte struct{ at time.Time }

func (f *firstByte) Write(p []byte) (int, error) {
	if f.at.IsZero() {
		f.at = time.Now()
	}
	return len(p), nil
}
