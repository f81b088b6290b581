//go:build linux

package guest

import (
	"context"
	"errors"
	"os"
	"syscall"
	"time"

	"aether/sandbox"

	pb "aether/guest/wire/process"
)

// write writes input. It waits for a process that does not read, until the
// caller gives up.
func (p *process) write(ctx context.Context, in *pb.ProcessInput) error {
	var data []byte
	switch in.GetInput().(type) {
	case *pb.ProcessInput_Pty:
		if p.master == nil {
			return sandbox.Invalidf("input", "the process has no terminal; send stdin")
		}
		data = in.GetPty()
	case *pb.ProcessInput_Stdin:
		if p.master != nil {
			return sandbox.Invalidf("input", "the process has a terminal; send pty")
		}
		data = in.GetStdin()
	default:
		return sandbox.Invalidf("input", "it is missing")
	}
	if p.input == nil {
		return &sandbox.Error{Class: sandbox.Conflict, Field: "input", Reason: "the process was started without stdin"}
	}
	return p.writeAll(ctx, data)
}

func (p *process) writeAll(ctx context.Context, data []byte) error {
	if err := p.inputs.take(ctx); err != nil {
		return err
	}
	defer p.inputs.give()
	if err := p.input.SetWriteDeadline(time.Time{}); err != nil {
		return inputClosed(err)
	}
	stopped := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		_ = p.input.SetWriteDeadline(time.Unix(1, 0))
		close(stopped)
	})
	_, err := p.input.Write(data)
	if !stop() {
		<-stopped // or the deadline would be that of the next piece
	}
	switch {
	case ctx.Err() != nil && err != nil:
		return ctx.Err()
	case errors.Is(err, os.ErrClosed) || errors.Is(err, syscall.EPIPE):
		return inputClosed(err)
	}
	return err
}

// turn is held by one at a time. Waiting for it ends with the caller's patience.
type turn chan struct{}

func newTurn() turn { return make(turn, 1) }

func (t turn) take(ctx context.Context) error {
	select {
	case t <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (t turn) give() { <-t }

func inputClosed(err error) error {
	return &sandbox.Error{Class: sandbox.Conflict, Field: "input", Reason: "the input is closed", Err: err}
}

func (p *process) closeInput() error {
	if p.master != nil {
		return sandbox.Invalidf("process", "a terminal's input has no end; send control-D")
	}
	if p.input == nil {
		return nil
	}
	if err := p.input.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
		return err
	}
	return nil
}
