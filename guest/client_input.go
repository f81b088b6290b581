package guest

import (
	"context"
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

// closePipe fails those who write to the pipe. That of a service in this program fails with what
// it belongs to.
func (r *Running) closePipe() {
	if r.piped != nil {
		r.piped.CloseWithError(errUnfollowed)
	}
}

// copyInput sends input and then its end. A process that has ended, or does not
// read, is no failure of the command: Wait tells how that went.
func (r *Running) copyInput(ctx context.Context) {
	stream := r.client.wire().process.StreamInput(ctx)
	err := stream.Send(&pb.StreamInputRequest{Event: &pb.StreamInputRequest_Start{Start: &pb.StreamInputRequest_StartEvent{Process: byPid(r.pid)}}})
	if err == nil {
		err = r.eachInput(func(in *pb.ProcessInput) error {
			return stream.Send(&pb.StreamInputRequest{Event: &pb.StreamInputRequest_Data{Data: &pb.StreamInputRequest_DataEvent{Input: in}}})
		})
	}
	if _, failed := stream.CloseAndReceive(); failed == nil && err == io.EOF && r.cmd.Terminal == nil {
		_ = r.CloseStdin(ctx)
	}
}

// copyInProcess is copyInput without the wire.
func (r *Running) copyInProcess(ctx context.Context, run inProcessRun) {
	err := r.eachInput(func(in *pb.ProcessInput) error { return run.write(ctx, in) })
	if err == io.EOF && r.cmd.Terminal == nil {
		_ = run.closeInput()
	}
}

// eachInput reads until something fails; io.EOF if that was the end.
func (r *Running) eachInput(send func(*pb.ProcessInput) error) error {
	buf := make([]byte, 32<<10)
	for {
		n, err := r.cmd.Stdin.Read(buf)
		if n > 0 {
			if failed := send(r.inputOf(buf[:n])); failed != nil {
				return failed
			}
		}
		if err != nil {
			return err
		}
	}
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
