//go:build linux

package guest

import (
	"context"
	"io"
	"net/http"
	"strconv"
	"time"

	"aether/sandbox"

	pb "aether/guest/wire/process"
)

const defaultKeepalive = 90 * time.Second

// follower is the events of one process for one client: its start, its output and
// its end. It is drawn from by whoever carries them, over the wire or in-process.
type follower struct {
	*process
	reader  *reader
	gone    <-chan struct{} // closed with the service
	trailer http.Header     // complete when the end was given

	begun, over bool
}

func (s *Service) follower(p *process, r *reader, trailer http.Header) *follower {
	return &follower{process: p, reader: r, gone: s.gone, trailer: trailer}
}

// next waits for the next event; io.EOF comes after the end. While there is none,
// alive asks for a sign of life. The event is given again until it is taken.
func (f *follower) next(ctx context.Context, alive <-chan time.Time) (*pb.ProcessEvent, error) {
	switch {
	case f.over:
		return nil, io.EOF
	case !f.begun:
		return startEvent(f.pid), nil
	}
	for {
		if err := f.stopped(ctx); err != nil {
			return nil, err
		}
		event, err := f.reader.peek()
		if err == io.EOF {
			return f.end()
		}
		if event != nil {
			return event, nil
		}
		select {
		case <-f.reader.wake:
		case <-f.gone:
		case <-ctx.Done():
		case <-alive:
			return keepalive, nil
		}
	}
}

// take is called with each event that is delivered. It fails if somebody has
// stopped the following meanwhile.
func (f *follower) take(event *pb.ProcessEvent) bool {
	switch event.GetEvent().(type) {
	case *pb.ProcessEvent_Start:
		f.begun = true
	case *pb.ProcessEvent_Data:
		return f.reader.take()
	case *pb.ProcessEvent_End:
		f.over = true
	}
	return true
}

func (f *follower) stopped(ctx context.Context) error {
	select {
	case <-f.gone:
		return errEnded
	default:
		return ctx.Err()
	}
}

func (f *follower) end() (*pb.ProcessEvent, error) {
	if f.timedOut.Load() {
		return nil, &sandbox.Error{Class: sandbox.Timeout, Reason: "the process took longer than it was given and was ended"}
	}
	if f.status.Signal != 0 {
		f.trailer.Set(signalTrailer, strconv.Itoa(int(f.status.Signal)))
	}
	if f.status.OutOfMemory {
		f.trailer.Set(outOfMemoryTrailer, "true")
	}
	return endEvent(f.status, f.failed), nil
}

// send sends the events over the wire. It returns when the process has ended or
// the client has gone; the process goes on without it.
func (f *follower) send(ctx context.Context, header http.Header, send func(*pb.ProcessEvent) error) error {
	defer f.reader.detach()
	alive := time.NewTicker(keepaliveInterval(header))
	defer alive.Stop()
	for {
		event, err := f.next(ctx, alive.C)
		if err == io.EOF {
			return nil
		}
		if err == nil {
			err = send(event)
		}
		if err == nil {
			err = f.stopped(ctx) // which alone tells of a connection that has taken nothing
		}
		if err != nil {
			return err
		}
		f.take(event)
	}
}

// look sends what was written and not taken, which stays so, and the end if it has come.
func (f *follower) look(send func(*pb.ProcessEvent) error) error {
	kept, closed := f.out.kept()
	for _, event := range append([]*pb.ProcessEvent{startEvent(f.pid)}, kept...) {
		if err := send(event); err != nil {
			return err
		}
	}
	if !closed {
		return nil
	}
	end, err := f.end()
	if err != nil {
		return err
	}
	return send(end)
}

// keepaliveInterval reads what the client asked for, in seconds.
func keepaliveInterval(header http.Header) time.Duration {
	seconds, err := strconv.Atoi(header.Get("Keepalive-Ping-Interval"))
	if err != nil || seconds < 1 || seconds > int(time.Hour/time.Second) {
		return defaultKeepalive
	}
	return time.Duration(seconds) * time.Second
}
