package guest

import (
	"context"
	"syscall"

	"connectrpc.com/connect"

	pb "aether/guest/wire/process"
)

// SendInput writes to the input of a process that nobody need follow: what it has
// written stays unread. Errors: NotFound once it has ended; Conflict or Invalid for one
// that was started without an input.
func (c *Client) SendInput(ctx context.Context, pid int, data []byte) error {
	_, err := callsOf(c).process.SendInput(ctx, connect.NewRequest(&pb.SendInputRequest{Process: byPid(uint32(pid)),
		Input: &pb.ProcessInput{Input: &pb.ProcessInput_Stdin{Stdin: data}}}))
	return clientError("write", err)
}

// CloseInput ends the input of a process.
func (c *Client) CloseInput(ctx context.Context, pid int) error {
	_, err := callsOf(c).process.CloseStdin(ctx, connect.NewRequest(&pb.CloseStdinRequest{Process: byPid(uint32(pid))}))
	return clientError("close stdin", err)
}

// Signal sends a signal to a process. Errors: NotFound once it has ended.
func (c *Client) Signal(ctx context.Context, pid int, sig syscall.Signal) error {
	_, err := callsOf(c).process.SendSignal(ctx, connect.NewRequest(&pb.SendSignalRequest{Process: byPid(uint32(pid)), Signal: pb.Signal(sig)}))
	return clientError("signal", err)
}
