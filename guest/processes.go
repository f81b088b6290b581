//go:build linux

package guest

import (
	"context"
	"errors"
	"syscall"

	"connectrpc.com/connect"

	"aether/guest/wire/process/processconnect"
	"aether/sandbox"

	pb "aether/guest/wire/process"
)

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
	c.done()
	if err != nil {
		return err
	}
	send := func(e *pb.ProcessEvent) error { return stream.Send(&pb.StartResponse{Event: e}) }
	if req.Header().Get(detachHeader) != "" {
		r.detach()
		return send(startEvent(p.pid))
	}
	return s.follower(p, r, stream.ResponseTrailer()).send(ctx, req.Header(), send)
}

func (s processes) Connect(ctx context.Context, req *connect.Request[pb.ConnectRequest], stream *connect.ServerStream[pb.ConnectResponse]) error {
	p, err := s.procs.findAny(req.Msg.GetProcess())
	if err != nil {
		return err
	}
	send := func(e *pb.ProcessEvent) error { return stream.Send(&pb.ConnectResponse{Event: e}) }
	if req.Header().Get(lookHeader) != "" {
		return s.follower(p, nil, stream.ResponseTrailer()).look(send)
	}
	return s.follower(p, p.out.attach(), stream.ResponseTrailer()).send(ctx, req.Header(), send)
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
