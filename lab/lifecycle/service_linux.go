package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"connectrpc.com/connect"

	"aether/guest/wire/process"
	"aether/guest/wire/process/processconnect"
	"aether/lab"
	"aether/sandbox"
)

// services are cells reached through the guest service over its wire, as a
// client in another program does.
type services struct{ cells }

// service is a living sandbox and a client of its guest service.
type service struct {
	sandbox.Instance
	transport *http.Transport
	client    processconnect.ProcessClient
}

func (s services) create(ctx context.Context) (*service, error) {
	instance, err := s.driver.Create(ctx, s.spec)
	if err != nil {
		return nil, err
	}
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return instance.Dial(ctx) }}
	client := processconnect.NewProcessClient(&http.Client{Transport: transport}, "http://sandbox")
	return &service{instance, transport, client}, nil
}

func (s services) cold(ctx context.Context) (lab.Sample, error) { return coldLife(ctx, s.create) }

func (s services) live(ctx context.Context) (living, error) { return s.create(ctx) }

func (s *service) exec(ctx context.Context) (lab.Sample, error) { return command(ctx, s) }

// served is a living sandbox whose guest service runs the first program.
type served interface {
	first(context.Context, *lab.Watch) error
	end() error
}

// coldLife is a whole life, from nothing.
func coldLife[S served](ctx context.Context, create func(context.Context) (S, error)) (lab.Sample, error) {
	w := lab.StartWatch()
	made, err := create(ctx)
	w.Lap("create")
	if err != nil {
		return lab.Sample{}, err
	}
	err = made.first(ctx, w)
	err = errors.Join(err, made.end())
	w.Lap("destroy")
	return w.Sample, err
}

// command is the first program in a sandbox that lives already.
func command(ctx context.Context, s served) (lab.Sample, error) {
	w := lab.StartWatch()
	err := s.first(ctx, w)
	return w.Sample, err
}

// patiently gives a context that is cancelled if the program hangs. A deadline in it
// would go to the service and have that arrange for killing the program in time, which
// costs.
func patiently(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	timer := time.AfterFunc(patience, cancel)
	return ctx, func() { timer.Stop(); cancel() }
}

// first runs the first program to its end.
func (s *service) first(ctx context.Context, w *lab.Watch) error {
	ctx, cancel := patiently(ctx)
	defer cancel()
	noInput := false
	stream, err := s.client.Start(ctx, connect.NewRequest(&process.StartRequest{
		Process: &process.ProcessConfig{Cmd: firstPath}, Stdin: &noInput}))
	if err != nil {
		return err
	}
	err = follow(stream, w)
	return errors.Join(err, stream.Close())
}

// follow reads the events of a process up to its end.
func follow(stream *connect.ServerStreamForClient[process.StartResponse], w *lab.Watch) error {
	for stream.Receive() {
		event := stream.Msg().GetEvent()
		if text := event.GetData().GetStdout(); len(text) > 0 {
			w.First("start, to the first byte")
			if string(text) != string(message) {
				return fmt.Errorf("%q came from the program in place of %q", text, message)
			}
		}
		if end := event.GetEnd(); end != nil && end.GetExitCode() != 0 {
			return fmt.Errorf("the program ended with %s", end.GetStatus())
		}
	}
	w.Lap("program's end")
	if err := stream.Err(); err != nil {
		return err
	}
	if w.Sample.First == 0 {
		return errors.New("no byte came from the program")
	}
	return nil
}

func (s *service) end() error {
	s.transport.CloseIdleConnections()
	return s.Destroy(context.Background())
}
