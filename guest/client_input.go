package guest

import (
	"context"
	"fmt"
	"io"

	"aether/sandbox"

	pb "aether/guest/wire/process"
)

// errUnfollowed fails what is written to a pipe whose process is not followed any
// more. It is no end of file, which would end the process's input.
var errUnfollowed = &sandbox.Error{Class: sandbox.Conflict, Op: "write", Field: "input", Reason: "the process is not followed any more"}

// Stdin is what the process of a StdinPipe reads; closing it ends that, but for a
// terminal, which has no end. It fails once the process has ended or is not
// followed any more.
func (r *Running) Stdin() io.WriteCloser { return r.stdin }

// beginInput begins to carry the input that the command asks for.
func (r *Running) beginInput(ctx context.Context) {
	run, inProcess := r.stream.(inProcessRun)
	switch {
	case r.cmd.StdinPipe && inProcess:
		r.stdin = &inProcessInput{r, run}
		return
	case r.cmd.StdinPipe:
		r.piped, r.stdin = io.Pipe()
		r.cmd.Stdin = r.piped
	}
	switch {
	case r.cmd.Stdin == nil:
	case inProcess:
		go r.copyInProcess(ctx, run)
	default:
		go r.copyInput(ctx)
	}
}

// closePipe fails those who write to the pipe. That of a service in this program
// fails with what it belongs to.
func (r *Running) closePipe() {
	if r.piped != nil {
		r.piped.CloseWithError(errUnfollowed)
	}
}

// copyInput sends input and then its end. A process that has ended, or does not
// read, is no failure of the command; a reader that fails is, and Wait tells.
func (r *Running) copyInput(ctx context.Context) {
	carry := context.WithoutCancel(ctx)
	stream := callsOf(r.client).process.StreamInput(carry)
	err := stream.Send(&pb.StreamInputRequest{Event: &pb.StreamInputRequest_Start{Start: &pb.StreamInputRequest_StartEvent{Process: byPid(r.pid)}}})
	whole := err == nil && r.eachInput(ctx, func(in *pb.ProcessInput) error {
		return stream.Send(&pb.StreamInputRequest{Event: &pb.StreamInputRequest_Data{Data: &pb.StreamInputRequest_DataEvent{Input: in}}})
	})
	if _, failed := stream.CloseAndReceive(); failed == nil && whole && r.cmd.Terminal == nil {
		_ = r.CloseStdin(carry) // which fails for a process that has ended
	}
}

// copyInProcess is copyInput without the wire.
func (r *Running) copyInProcess(ctx context.Context, run inProcessRun) {
	whole := r.eachInput(ctx, func(in *pb.ProcessInput) error { return run.write(context.WithoutCancel(ctx), in) })
	if whole && r.cmd.Terminal == nil {
		_ = run.closeInput() // which fails for a process that has ended
	}
}

// eachInput sends what it reads, until the context ends, and says whether all was
// sent. What a failing reader gave is all, and its failure is kept for Wait; but of
// a process that is not followed any more, no failure ends the input.
func (r *Running) eachInput(ctx context.Context, send func(*pb.ProcessInput) error) (whole bool) {
	buf := make([]byte, 32<<10)
	for {
		n, err := r.cmd.Stdin.Read(buf)
		if n > 0 && send(r.inputOf(buf[:n])) != nil {
			return false
		}
		switch {
		case err == io.EOF:
			return true
		case err != nil && (ctx.Err() != nil || r.closed.Load()):
			return false
		case err != nil:
			r.unread.Store(&err)
			return true
		}
	}
}

// inputError is why not all of the input was read, or nil.
func (r *Running) inputError() error {
	if err := r.unread.Load(); err != nil {
		return fmt.Errorf("guest: read the input of the process: %w", *err)
	}
	return nil
}

func (r *Running) inputOf(data []byte) *pb.ProcessInput {
	if r.cmd.Terminal != nil {
		return &pb.ProcessInput{Input: &pb.ProcessInput_Pty{Pty: data}}
	}
	return &pb.ProcessInput{Input: &pb.ProcessInput_Stdin{Stdin: data}}
}

// inProcessInput writes to a process whose service is in this program.
type inProcessInput struct {
	*Running
	run inProcessRun
}

func (w *inProcessInput) Write(data []byte) (int, error) {
	switch err := w.run.writeFollowing(w.inputOf(data)); err {
	case nil:
		return len(data), nil
	case errUnfollowed:
		return 0, err
	default:
		return 0, clientError("write", err)
	}
}

func (w *inProcessInput) Close() error {
	if w.cmd.Terminal != nil {
		return nil
	}
	return clientError("close stdin", w.run.closeInput())
}
