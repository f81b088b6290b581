//go:build linux

package guest

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"net/http"
	"time"

	"connectrpc.com/connect"

	"aether/sandbox"

	pb "aether/guest/wire/filesystem"
)

func (s files) newWatch(header http.Header, req watchRequest) (*watch, error) {
	c, err := s.caller(header, "")
	if err != nil {
		return nil, err
	}
	w, err := s.describer(c).watch(&s.notifier, req)
	if err != nil {
		c.done()
	}
	return w, err
}

func (s files) WatchDir(ctx context.Context, req *connect.Request[pb.WatchDirRequest], stream *connect.ServerStream[pb.WatchDirResponse]) error {
	w, err := s.newWatch(req.Header(), req.Msg)
	if err != nil {
		return err
	}
	defer w.close()
	if err := stream.Send(&pb.WatchDirResponse{Event: &pb.WatchDirResponse_Start{Start: &pb.WatchDirResponse_StartEvent{}}}); err != nil {
		return err
	}
	alive := time.NewTicker(keepaliveInterval(req.Header()))
	defer alive.Stop()
	for {
		select {
		case <-w.wake:
			if err := w.sendAll(stream); err != nil {
				return ended(err)
			}
		case <-ctx.Done():
			return ctx.Err()
		case <-alive.C:
			if err := stream.Send(&pb.WatchDirResponse{Event: &pb.WatchDirResponse_Keepalive{Keepalive: &pb.WatchDirResponse_KeepAlive{}}}); err != nil {
				return err
			}
		}
	}
}

func (w *watch) sendAll(stream *connect.ServerStream[pb.WatchDirResponse]) error {
	for {
		events, err := w.take()
		if err != nil || len(events) == 0 {
			return err
		}
		for _, e := range events {
			if err := stream.Send(&pb.WatchDirResponse{Event: &pb.WatchDirResponse_Filesystem{Filesystem: e}}); err != nil {
				return err
			}
		}
	}
}

// ended turns the end of the watched directory into the end of the stream.
func ended(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

func (s files) CreateWatcher(_ context.Context, req *connect.Request[pb.CreateWatcherRequest]) (*connect.Response[pb.CreateWatcherResponse], error) {
	w, err := s.newWatch(req.Header(), req.Msg)
	if err != nil {
		return nil, err
	}
	id := "w" + rand.Text()
	if err := s.watchers.add(id, w); err != nil {
		return nil, errors.Join(err, w.close())
	}
	return connect.NewResponse(&pb.CreateWatcherResponse{WatcherId: id}), nil
}

func (s files) GetWatcherEvents(_ context.Context, req *connect.Request[pb.GetWatcherEventsRequest]) (*connect.Response[pb.GetWatcherEventsResponse], error) {
	w, err := s.watchers.find(req.Msg.GetWatcherId())
	if err != nil {
		return nil, err
	}
	events, err := w.take()
	if errors.Is(err, io.EOF) {
		err = &sandbox.Error{Class: sandbox.NotFound, Field: "watcher_id", Reason: "the watched directory is gone"}
	}
	return connect.NewResponse(&pb.GetWatcherEventsResponse{Events: events}), err
}

func (s files) RemoveWatcher(_ context.Context, req *connect.Request[pb.RemoveWatcherRequest]) (*connect.Response[pb.RemoveWatcherResponse], error) {
	err := s.watchers.remove(req.Msg.GetWatcherId())
	return connect.NewResponse(&pb.RemoveWatcherResponse{}), err
}
