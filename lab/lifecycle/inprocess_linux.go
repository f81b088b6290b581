package lifecycle

import (
	"context"
	"fmt"

	"aether/guest"
	"aether/lab"
	"aether/sandbox"
)

// inProcess are cells reached through the guest service in this very program, as by
// package engine and the daemon.
type inProcess struct{ cells }

// attended is a living sandbox and a client of its guest service.
type attended struct {
	sandbox.Instance
	client *guest.Client
}

func (p inProcess) create(ctx context.Context) (*attended, error) {
	instance, err := p.driver.Create(ctx, p.spec)
	if err != nil {
		return nil, err
	}
	return &attended{instance, guest.ClientFor(instance, guest.ClientOptions{})}, nil
}

func (p inProcess) cold(ctx context.Context) (lab.Sample, error) { return coldLife(ctx, p.create) }

func (p inProcess) live(ctx context.Context) (living, error) { return p.create(ctx) }

func (a *attended) exec(ctx context.Context) (lab.Sample, error) { return command(ctx, a) }

// first runs the first program to its end. It is cancelled if it hangs, as by services.
func (a *attended) first(ctx context.Context, w *lab.Watch) error {
	ctx, cancel := patiently(ctx)
	defer cancel()
	running, err := a.client.Start(ctx, guest.Cmd{Path: firstPath, Stdout: firstWrite{w}})
	w.Lap("start")
	if err != nil {
		return err
	}
	end, err := running.Wait()
	w.Lap("program's end")
	if err == nil && (end != guest.Status{} || w.Sample.First == 0) {
		err = fmt.Errorf("the program ended with %+v and its byte after %v", end, w.Sample.First)
	}
	return err
}

// firstWrite is told what comes first.
type firstWrite struct{ *lab.Watch }

func (f firstWrite) Write(text []byte) (int, error) {
	f.First("program's first byte")
	if string(text) != string(message) {
		return 0, fmt.Errorf("%q came from the program in place of %q", text, message)
	}
	return len(text), nil
}

func (a *attended) end() error {
	a.client.Close()
	return a.Destroy(context.Background())
}
