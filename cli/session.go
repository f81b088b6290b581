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

	"aether/engine"
	"aether/guest"
	"aether/sandbox"
)

// session is one command in one sandbox, from its making to its removal.
type session struct {
	flags *runFlags
	cmd   *cobra.Command
	start time.Time

	driver   sandbox.Driver
	instance sandbox.Instance
	client   *guest.Client
	running  *guest.Running
	streams  streams
	created  time.Time
	cancel   context.CancelFunc // gives up what is waited for
	// stopped is closed when a second signal asks for the end at once.
	stopped chan struct{}
}

func (s *session) run(list engine.Candidates, spec sandbox.Spec, args []string) (err error) {
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	defer signal.Stop(signals)
	ctx, cancel := context.WithCancel(s.cmd.Context())
	defer cancel()
	s.cancel = cancel
	begun := make(chan struct{})
	begin := sync.OnceFunc(func() { close(begun) })
	defer begin()
	go s.untilBegun(signals, begun)
	watched, drawn := showProgress(ctx, s.cmd, s.flags.json)
	made, err := list.Create(watched, spec)
	drawn()
	if err != nil {
		return asFlag(err)
	}
	s.driver, s.instance = made.Driver, made.Instance
	s.created = time.Now()
	defer func() { err = errors.Join(err, s.destroy()) }()
	s.client = guest.ClientFor(s.instance, guest.ClientOptions{})
	return s.command(ctx, signals, begin, args)
}

// untilBegun lets a signal stop the making of the sandbox, and the wait for its guest
// service.
func (s *session) untilBegun(signals chan os.Signal, begun <-chan struct{}) {
	select {
	case sig := <-signals:
		signals <- sig // for the command, if there will be one
		s.cancel()
	case <-begun:
	}
}

func (s *session) destroy() error {
	return s.instance.Destroy(context.WithoutCancel(s.cmd.Context()))
}

func (s *session) command(ctx context.Context, signals <-chan os.Signal, begun func(), args []string) error {
	s.streams.open(s)
	cmd := guest.Cmd{Stdout: s.streams.stdout, Stderr: s.streams.stderr}
	if len(args) > 0 {
		cmd.Path, cmd.Args = args[0], args[1:]
	}
	if s.flags.input {
		cmd.Stdin = s.cmd.InOrStdin()
	}
	restore, err := s.terminal(&cmd)
	if err != nil {
		return err
	}
	defer restore()
	if s.flags.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, s.flags.timeout)
		defer cancel()
	}
	if s.running, err = s.begin(ctx, cmd); err != nil {
		return err
	}
	begun()
	done := make(chan struct{})
	defer close(done)
	s.stopped = make(chan struct{})
	go s.forward(signals, done)
	return s.wait()
}

// signalTime is how long a guest service may take to pass a signal on. One that takes
// longer is silent, and its sandbox is ended instead.
const signalTime = 10 * time.Second

// forward passes signals on. The command is in a session of its own, so the
// terminal's control-C reaches only us. A second one ends the sandbox.
func (s *session) forward(signals <-chan os.Signal, done <-chan struct{}) {
	first, unheard := true, make(chan struct{}, 1)
	for {
		select {
		case sig := <-signals:
			if !first {
				s.stop()
				return
			}
			first = false
			go s.signal(sig.(syscall.Signal), unheard)
		case <-unheard:
			s.stop()
			return
		case <-done:
			return
		}
	}
}

// signal tells if nobody took the signal.
func (s *session) signal(sig syscall.Signal, unheard chan<- struct{}) {
	ctx, cancel := context.WithTimeout(context.Background(), signalTime)
	defer cancel()
	// A command that has just ended needs no signal.
	if err := s.running.Signal(ctx, sig); err != nil && ctx.Err() != nil {
		unheard <- struct{}{}
	}
}

// stop ends the sandbox with the command in it.
func (s *session) stop() {
	close(s.stopped)
	// Wait fails with the sandbox, which is what was asked for; but a silent one is not
	// waited for.
	_ = s.destroy()
	s.cancel()
}

func (s *session) wait() error {
	status, err := s.running.Wait()
	ended := time.Now()
	select {
	case <-s.stopped:
		return exitCode(statusSignalBase + int(syscall.SIGINT))
	default:
	}
	timeout := sandbox.ClassOf(err) == sandbox.Timeout
	if err != nil && !timeout {
		return err
	}
	code := exitStatus(status, timeout)
	if s.flags.json {
		return s.print(status, code, timeout, ended)
	}
	if code == 0 {
		return nil
	}
	return errors.Join(s.explainEnd(status, timeout), exitCode(code))
}

// limitFlags is what to raise when a limit was reached.
var limitFlags = map[string]string{"memory": "--memory", "processes": "--pids", "disk": "--disk"}

// explainEnd says what the exit status of a failure alone does not.
func (s *session) explainEnd(status guest.Status, timeout bool) error {
	if timeout {
		printError(s.cmd, "aether: the command was ended after %v (--timeout)", s.flags.timeout)
	}
	stats, err := s.instance.Stats(s.cmd.Context())
	if err != nil {
		return err
	}
	for _, limit := range stats.Reached() {
		printError(s.cmd, "aether: the sandbox reached its %s limit (%s)", limit, limitFlags[limit])
	}
	return nil
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
func (st *streams) open(s *session) {
	st.first = &firstByte{}
	st.stdout, st.stderr = s.cmd.OutOrStdout(), s.cmd.ErrOrStderr()
	if s.flags.json {
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
