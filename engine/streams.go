package engine

import (
	"context"
	"errors"
	"io"

	"aether/guest"
)

// Streams is a connection to a running process. Its end leaves the process alone.
type Streams struct {
	// Stdin is the process's input; closing it ends that.
	Stdin io.WriteCloser
	// Stdout and Stderr are its output, from the fork on; what is not read waits.
	// They are nil for whoever had the output written elsewhere.
	Stdout, Stderr io.Reader

	running *guest.Running
	unlink  context.CancelFunc
	outputs []*io.PipeWriter
	done    chan struct{}
	status  guest.Status
	err     error
}

// errUnlinked ends the output of a connection and not that of its process.
var errUnlinked = errors.New("engine: the connection to the process was closed")

func startStreams(ctx context.Context, client *guest.Client, cmd guest.Cmd) (*Streams, error) {
	return link(ctx, cmd, client.Start)
}

// connectStreams connects to a process with pipes for its output.
func connectStreams(ctx context.Context, client *guest.Client, pid int) (*Streams, error) {
	outR, outW := io.Pipe()
	errR, errW := io.Pipe()
	s, err := link(ctx, guest.Cmd{Stdout: outW, Stderr: errW}, func(ctx context.Context, cmd guest.Cmd) (*guest.Running, error) {
		return client.Connect(ctx, pid, cmd)
	}, outW, errW)
	if err != nil {
		return nil, err
	}
	s.Stdout, s.Stderr = outR, errR
	return s, nil
}

// link begins a connection that lasts until it is closed: a deadline of ctx would
// become the process's own, so that only its end is passed on, and only until the
// connection is there.
func link(ctx context.Context, cmd guest.Cmd, begin func(context.Context, guest.Cmd) (*guest.Running, error), outputs ...*io.PipeWriter) (*Streams, error) {
	s := &Streams{done: make(chan struct{}), outputs: outputs}
	var life context.Context
	life, s.unlink = context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, s.unlink)
	cmd.StdinPipe = true
	var err error
	if s.running, err = begin(life, cmd); err != nil {
		s.unlink()
		return nil, errors.Join(ctx.Err(), err)
	}
	s.Stdin = s.running.Stdin()
	go s.follow()
	if !stop() {
		s.Close()
		return nil, ctx.Err()
	}
	return s, nil
}

func (s *Streams) follow() {
	s.status, s.err = s.running.Wait()
	end := s.err
	if end == nil {
		end = io.EOF
	}
	for _, w := range s.outputs {
		w.CloseWithError(end)
	}
	s.unlink()
	close(s.done)
}

// Pid is the process's number inside.
func (s *Streams) Pid() int { return s.running.Pid() }

// Done is closed when the process has ended or the connection has.
func (s *Streams) Done() <-chan struct{} { return s.done }

// Status says how the process ended, once Done is closed.
func (s *Streams) Status() (guest.Status, error) { return s.status, s.err }

// Close ends the connection. The process goes on.
func (s *Streams) Close() {
	for _, w := range s.outputs {
		w.CloseWithError(errUnlinked)
	}
	s.unlink()
	<-s.done
}
