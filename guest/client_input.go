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
	near, isNear := r.stream.(nearProcess)
	switch {
	case r.cmd.StdinPipe && isNear:
		r.stdin = &nearInput{r, near}
		return
	case r.cmd.StdinPipe:
		r.piped, r.stdin = io.Pipe()
		r.cmd.Stdin = r.piped
	}
	switch {
	case r.cmd.Stdin == nil:
	case isNear:
		go r.copyNear(ctx, near)
	default:
		go r.copyInput(ctx)
	}
}

// closePipe fails those who write to the pipe. One that is near fails with what
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

// copyNear is copyInput without the wire.
func (r *Running) copyNear(ctx context.Context, near nearProcess) {
	err := r.eachInput(func(in *pb.ProcessInput) error { return near.write(ctx, in) })
	if err == io.EOF && r.cmd.Terminal == nil {
		_ = near.closeInput()
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

// nearInput writes to a process that is near.
type nearInput struct {
	*Running
	near nearProcess
}

func (w *nearInput) Write(data []byte) (int, error) {
	switch err := w.near.writeFollowing(w.inputOf(data)); err {
	case nil:
		return len(data), nil
	case errUnfollowed:
		return 0, err
	default:
		return 0, clientError("write", err)
	}
}

func (w *nearInput) Close() error {
	if w.cmd.Terminal != nil {
		return nil
	}
	return clientError("close stdin", w.near.closeInput())
}
