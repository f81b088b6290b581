package guest

import (
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"sync/atomic"
	"syscall"

	"connectrpc.com/connect"

	"aether/sandbox"

	pb "aether/guest/wire/process"
)

// Cmd is a command for the sandbox.
type Cmd struct {
	Path string // a name is looked for in PATH
	Args []string
	Env  map[string]string
	Dir  string
	Tag  string

	// Stdin, if set, is copied to the process until its end.
	Stdin io.Reader
	// StdinPipe, if set, has the process read what is written to Running.Stdin;
	// Stdin is not used then.
	StdinPipe bool
	// Stdout and Stderr get the output, byte for byte; a nil one drops it. A
	// terminal writes everything to Stdout.
	Stdout, Stderr io.Writer
	// Terminal, if set, runs the command on one of that size.
	Terminal *Size
}

// Size is a terminal's.
type Size struct{ Cols, Rows uint16 }

// Running is a process that a client has started or connected to.
type Running struct {
	client *Client
	cmd    Cmd
	stream eventStream
	pid    uint32
	stdin  io.WriteCloser // of a StdinPipe
	piped  *io.PipeReader // its other end, if the service is in another program
	closed atomic.Bool
	unread atomic.Pointer[error] // why Cmd.Stdin could not be read to its end
}

// eventStream is what Start and Connect have in common.
type eventStream interface {
	Receive() bool
	Err() error
	Close() error
	ResponseTrailer() http.Header
}

// Start starts a command. The deadline of the context, if it has one, is the
// process's too: the sandbox ends it and everything it started. Cancelling the
// context only leaves the process alone.
func (c *Client) Start(ctx context.Context, cmd Cmd) (*Running, error) {
	stream, err := c.start(ctx, cmd.request())
	if err != nil {
		return nil, clientError("start", err)
	}
	return c.begin(ctx, "start", cmd, stream)
}

// StartDetached starts a command that nobody follows, and gives its number. What it writes
// is kept for those who Connect to it or Look, up to a bound.
func (c *Client) StartDetached(ctx context.Context, cmd Cmd) (pid int, err error) {
	req := connect.NewRequest(cmd.request())
	req.Header().Set(detachHeader, "true")
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := callsOf(c).process.Start(ctx, req)
	if err != nil {
		return 0, clientError("start", err)
	}
	if !stream.Receive() {
		return 0, clientError("start", errors.Join(missingStart(stream.Err()), stream.Close()))
	}
	pid = int(eventOf(stream).GetStart().GetPid())
	cancel()
	_ = stream.Close() // of which nothing more is wanted
	return pid, nil
}

func (c *Client) start(ctx context.Context, req *pb.StartRequest) (eventStream, error) {
	if c.here != nil {
		return c.inProcess(func(s InProcessService) (inProcessRun, error) { return s.startInProcess(ctx, c.opts, req) })
	}
	return callsOf(c).process.Start(ctx, connect.NewRequest(req))
}

// Connect follows a process that already runs, from what nobody has read of it
// yet. Only the input and the output of the Cmd count.
func (c *Client) Connect(ctx context.Context, pid int, cmd Cmd) (*Running, error) {
	stream, err := c.connect(ctx, byPid(uint32(pid)))
	if err != nil {
		return nil, clientError("connect", err)
	}
	return c.begin(ctx, "connect", cmd, stream)
}

// Look writes what a process has written and nobody has read to the output of the Cmd,
// and leaves it unread. Over is how the process ended, or nil while it runs. Errors: as
// Wait.
func (c *Client) Look(ctx context.Context, pid int, cmd Cmd) (over *Status, err error) {
	req := connect.NewRequest(&pb.ConnectRequest{Process: byPid(uint32(pid))})
	req.Header().Set(lookHeader, "true")
	stream, err := callsOf(c).process.Connect(ctx, req)
	if err != nil {
		return nil, clientError("look", err)
	}
	r := &Running{client: c, cmd: cmd, stream: stream, pid: uint32(pid)}
	end, err := r.receive()
	if err = errors.Join(err, r.Close()); err != nil || end == nil {
		return nil, err
	}
	status, err := r.status(end)
	return &status, err
}

func (c *Client) connect(ctx context.Context, sel *pb.ProcessSelector) (eventStream, error) {
	if c.here != nil {
		return c.inProcess(func(s InProcessService) (inProcessRun, error) { return s.connectInProcess(ctx, c.opts, sel) })
	}
	return callsOf(c).process.Connect(ctx, connect.NewRequest(&pb.ConnectRequest{Process: sel}))
}

func (c *Client) begin(ctx context.Context, op string, cmd Cmd, stream eventStream) (*Running, error) {
	r := &Running{client: c, cmd: cmd, stream: stream}
	if !stream.Receive() {
		return nil, clientError(op, errors.Join(missingStart(stream.Err()), stream.Close()))
	}
	r.pid = eventOf(stream).GetStart().GetPid()
	r.beginInput(ctx)
	return r, nil
}

func missingStart(err error) error {
	if err == nil {
		return io.ErrUnexpectedEOF
	}
	return err
}

// request shares nothing with the Cmd: a service in this program keeps it.
func (cmd *Cmd) request() *pb.StartRequest {
	input := cmd.Stdin != nil || cmd.StdinPipe
	req := &pb.StartRequest{Process: &pb.ProcessConfig{Cmd: cmd.Path, Args: slices.Clone(cmd.Args), Envs: maps.Clone(cmd.Env)}, Stdin: &input}
	if cmd.Dir != "" {
		req.Process.Cwd = new(cmd.Dir)
	}
	if cmd.Tag != "" {
		req.Tag = new(cmd.Tag)
	}
	if cmd.Terminal != nil {
		req.Pty = &pb.PTY{Size: cmd.Terminal.message()}
	}
	return req
}

func (s Size) message() *pb.PTY_Size { return &pb.PTY_Size{Cols: uint32(s.Cols), Rows: uint32(s.Rows)} }

func byPid(pid uint32) *pb.ProcessSelector {
	return &pb.ProcessSelector{Selector: &pb.ProcessSelector_Pid{Pid: pid}}
}

func eventOf(stream eventStream) *pb.ProcessEvent {
	switch s := stream.(type) {
	case *connect.ServerStreamForClient[pb.StartResponse]:
		return s.Msg().GetEvent()
	case *connect.ServerStreamForClient[pb.ConnectResponse]:
		return s.Msg().GetEvent()
	case inProcessRun:
		return s.event()
	}
	return nil
}

// Pid is the process's id inside the sandbox.
func (r *Running) Pid() int { return int(r.pid) }

// Close stops following. The process goes on, and so does its input, unless that
// is a pipe.
func (r *Running) Close() error {
	r.closed.Store(true)
	r.closePipe()
	return r.stream.Close()
}

// Wait carries the output until the process has ended. It is called once, and
// the output waits for it. Errors: Timeout if the process's time was over, whatever
// the writers answer, and beside the Status that Cmd.Stdin could not be read.
func (r *Running) Wait() (Status, error) {
	defer r.Close()
	end, err := r.receive()
	if err != nil {
		return Status{}, err
	}
	if end == nil {
		return Status{}, clientError("wait", io.ErrUnexpectedEOF)
	}
	status, err := r.status(end)
	return status, errors.Join(err, r.inputError())
}

// receive carries the output to the end of the stream, which has that of the process
// unless it is nil.
func (r *Running) receive() (end *pb.ProcessEvent_EndEvent, err error) {
	for r.stream.Receive() {
		event := eventOf(r.stream)
		if err := r.output(event.GetData()); err != nil {
			return nil, err
		}
		if event.GetEnd() != nil {
			end = event.GetEnd()
		}
	}
	if err := r.stream.Err(); err != nil {
		return nil, clientError("wait", err)
	}
	return end, nil
}

func (r *Running) status(end *pb.ProcessEvent_EndEvent) (Status, error) {
	trailer := r.stream.ResponseTrailer()
	s := Status{Code: int(end.GetExitCode()), OutOfMemory: trailer.Get(outOfMemoryTrailer) != ""}
	if text := trailer.Get(signalTrailer); text != "" {
		sig, err := strconv.Atoi(text)
		if err != nil {
			return Status{}, &sandbox.Error{Op: "wait", Reason: "the signal is not a number", Err: err}
		}
		s.Signal = syscall.Signal(sig)
	}
	return s, nil
}

func (r *Running) output(data *pb.ProcessEvent_DataEvent) error {
	to, bytes := r.cmd.Stdout, data.GetStdout()
	switch data.GetOutput().(type) {
	case *pb.ProcessEvent_DataEvent_Stderr:
		to, bytes = r.cmd.Stderr, data.GetStderr()
	case *pb.ProcessEvent_DataEvent_Pty:
		bytes = data.GetPty()
	}
	if to == nil || len(bytes) == 0 {
		return nil
	}
	_, err := to.Write(bytes)
	return err
}

// Signal sends a signal to the process.
func (r *Running) Signal(ctx context.Context, sig syscall.Signal) error {
	_, err := callsOf(r.client).process.SendSignal(ctx, connect.NewRequest(&pb.SendSignalRequest{Process: byPid(r.pid), Signal: pb.Signal(sig)}))
	return clientError("signal", err)
}

// Resize changes the size of the process's terminal.
func (r *Running) Resize(ctx context.Context, size Size) error {
	_, err := callsOf(r.client).process.Update(ctx, connect.NewRequest(&pb.UpdateRequest{Process: byPid(r.pid), Pty: &pb.PTY{Size: size.message()}}))
	return clientError("resize", err)
}

// CloseStdin ends the process's input.
func (r *Running) CloseStdin(ctx context.Context) error {
	_, err := callsOf(r.client).process.CloseStdin(ctx, connect.NewRequest(&pb.CloseStdinRequest{Process: byPid(r.pid)}))
	return clientError("close stdin", err)
}

// Processes lists the processes that run.
func (c *Client) Processes(ctx context.Context) ([]*pb.ProcessInfo, error) {
	res, err := callsOf(c).process.List(ctx, connect.NewRequest(&pb.ListRequest{}))
	if err != nil {
		return nil, clientError("list processes", err)
	}
	return res.Msg.GetProcesses(), nil
}
