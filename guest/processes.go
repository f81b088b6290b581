//go:build linux

package guest

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"syscall"
	"time"

	"connectrpc.com/connect"

	"aether/guest/wire/process/processconnect"
	"aether/sandbox"

	pb "aether/guest/wire/process"
)

const defaultKeepalive = 90 * time.Second

// processes serves the Process calls.
type processes struct{ *Service }

var _ processconnect.ProcessHandler = processes{}

func (s processes) List(context.Context, *connect.Request[pb.ListRequest]) (*connect.Response[pb.ListResponse], error) {
	return connect.NewResponse(&pb.ListResponse{Processes: s.procs.list()}), nil
}

func (s processes) Start(ctx context.Context, req *connect.Request[pb.StartRequest], stream *connect.ServerStream[pb.StartResponse]) error {
	c, err := s.caller(req.Header(), "")
	if err != nil {
		return err
	}
	p, r, err := s.start(ctx, c, req.Msg)
	if err != nil {
		return err
	}
	f := follower{p, r, stream.ResponseTrailer(), func(e *pb.ProcessEvent) error { return stream.Send(&pb.StartResponse{Event: e}) }}
	return f.follow(ctx, req.Header())
}

func (s processes) Connect(ctx context.Context, req *connect.Request[pb.ConnectRequest], stream *connect.ServerStream[pb.ConnectResponse]) error {
	p, err := s.procs.findAny(req.Msg.GetProcess())
	if err != nil {
		return err
	}
	f := follower{p, p.out.attach(), stream.ResponseTrailer(), func(e *pb.ProcessEvent) error { return stream.Send(&pb.ConnectResponse{Event: e}) }}
	return f.follow(ctx, req.Header())
}

// follower sends the events of one process to one client.
type follower struct {
	*process
	reader  *reader
	trailer http.Header
	send    func(*pb.ProcessEvent) error
}

// follow returns when the process has ended or the client has gone; the process
// goes on without it.
func (f follower) follow(ctx context.Context, header http.Header) error {
	defer f.reader.detach()
	if err := f.send(startEvent(f.pid)); err != nil {
		return err
	}
	alive := time.NewTicker(keepaliveInterval(header))
	defer alive.Stop()
	for {
		event, err := f.reader.peek()
		if err == io.EOF {
			return f.sendEnd()
		}
		if event != nil {
			if err := f.send(event); err != nil {
				return err
			}
			f.reader.take()
			continue
		}
		select {
		case <-f.reader.wake:
		case <-ctx.Done():
			return ctx.Err()
		case <-alive.C:
			if err := f.send(keepalive); err != nil {
				return err
			}
		}
	}
}

func (f follower) sendEnd() error {
	if f.timedOut.Load() {
		return &sandbox.Error{Class: sandbox.Timeout, Reason: "the process took longer than it was given and was ended"}
	}
	if f.status.Signal != 0 {
		f.trailer.Set(signalTrailer, strconv.Itoa(int(f.status.Signal)))
	}
	if f.status.OutOfMemory {
		f.trailer.Set(outOfMemoryTrailer, "true")
	}
	return f.send(endEvent(f.status, f.failed))
}

// keepaliveInterval reads what the client asked for, in seconds.
func keepaliveInterval(header http.Header) time.Duration {
	seconds, err := strconv.Atoi(header.Get("Keepalive-Ping-Interval"))
	if err != nil || seconds < 1 || seconds > int(time.Hour/time.Second) {
		return defaultKeepalive
	}
	return time.Duration(seconds) * time.Second
}

func (s processes) Update(_ context.Context, req *connect.Request[pb.UpdateRequest]) (*connect.Response[pb.UpdateResponse], error) {
	p, err := s.procs.find(req.Msg.GetProcess())
	if err == nil && req.Msg.GetPty() != nil {
		err = p.resize(req.Msg.GetPty().GetSize())
	}
	return connect.NewResponse(&pb.UpdateResponse{}), err
}

func (s processes) SendInput(ctx context.Context, req *connect.Request[pb.SendInputRequest]) (*connect.Response[pb.SendInputResponse], error) {
	p, err := s.procs.find(req.Msg.GetProcess())
	if err == nil {
		err = p.write(ctx, req.Msg.GetInput())
	}
	return connect.NewResponse(&pb.SendInputResponse{}), err
}

func (s processes) StreamInput(ctx context.Context, stream *connect.ClientStream[pb.StreamInputRequest]) (*connect.Response[pb.StreamInputResponse], error) {
	var p *process
	for stream.Receive() {
		var err error
		switch event := stream.Msg().GetEvent().(type) {
		case *pb.StreamInputRequest_Start:
			p, err = s.procs.find(event.Start.GetProcess())
		case *pb.StreamInputRequest_Data:
			if p == nil {
				return nil, sandbox.Invalidf("event", "data came before start")
			}
			err = p.write(ctx, event.Data.GetInput())
		}
		if err != nil {
			return nil, err
		}
	}
	return connect.NewResponse(&pb.StreamInputResponse{}), stream.Err()
}

func (s processes) SendSignal(_ context.Context, req *connect.Request[pb.SendSignalRequest]) (*connect.Response[pb.SendSignalResponse], error) {
	p, err := s.procs.find(req.Msg.GetProcess())
	if err != nil {
		return nil, err
	}
	sig := syscall.Signal(req.Msg.GetSignal())
	if sig < 1 || sig > 64 {
		return nil, sandbox.Invalidf("signal", "%d is not a signal", int(sig))
	}
	err = p.signal(sig)
	if errors.Is(err, syscall.ESRCH) {
		err = processGone(p.pid)
	}
	return connect.NewResponse(&pb.SendSignalResponse{}), err
}

func (s processes) CloseStdin(_ context.Context, req *connect.Request[pb.CloseStdinRequest]) (*connect.Response[pb.CloseStdinResponse], error) {
	p, err := s.procs.find(req.Msg.GetProcess())
	if err == nil {
		err = p.closeInput()
	}
	return connect.NewResponse(&pb.CloseStdinResponse{}), err
}
