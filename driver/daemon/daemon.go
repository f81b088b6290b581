package daemon

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"strings"
	"syscall"
	"time"

	"aether/sandbox"
)

// Daemon is where a daemon listens, and how it is spoken of.
type Daemon struct {
	Socket string
	// Name is as in a sentence: "containerd", or "the Docker daemon".
	Name string
	// Install is the remedy where there is none, and Allow where this user may not
	// use it. Unit is what systemd starts.
	Install, Allow, Unit string
}

// Ping asks for a sign of life. Errors: Unavailable, also for a daemon that takes a
// connection and does not answer.
func (d Daemon) Ping(ctx context.Context, ask func(context.Context) error) error {
	limited, cancel := context.WithTimeout(ctx, timeToAnswer(ctx))
	defer cancel()
	err := ask(limited)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	}
	return d.unavailable(err, limited.Err() != nil)
}

// timeToAnswer is how long a daemon may take to say that it is there. Where a caller has
// seconds, the last is left to say more than that they are over.
func timeToAnswer(ctx context.Context) time.Duration {
	deadline, ok := ctx.Deadline()
	if !ok {
		return mostToAnswer
	}
	return min(max(leastToAnswer, time.Until(deadline)*4/5), mostToAnswer)
}

func (d Daemon) unavailable(err error, late bool) error {
	e := &sandbox.Error{Class: sandbox.Unavailable, Retry: true, Reason: d.Name + " at " + d.Socket + " cannot be used", Err: err}
	// Clients hide why a connection failed, so the socket is asked itself.
	conn, dialed := net.DialTimeout("unix", d.Socket, dialTime)
	if dialed == nil {
		dialed = conn.Close()
	}
	switch {
	case errors.Is(dialed, fs.ErrNotExist):
		e.Reason, e.Remedy, e.Err = "there is no "+strings.TrimPrefix(d.Name, "the ")+": "+d.Socket+" does not exist", d.Install, nil
	case errors.Is(dialed, fs.ErrPermission):
		e.Reason, e.Remedy, e.Err = "this user may not use "+d.Socket, d.Allow, nil
	case errors.Is(dialed, syscall.ECONNREFUSED):
		e.Reason, e.Remedy, e.Err = d.Name+" is down: nobody listens at "+d.Socket, "start it (systemctl start "+d.Unit+")", nil
	case late:
		e.Reason, e.Remedy, e.Err = d.Name+" at "+d.Socket+" does not answer", "look at its log and restart it (systemctl restart "+d.Unit+")", nil
	}
	return e
}

// Tell gives the reason of a failure for a Report, and the remedy.
func Tell(err error) (reason, remedy string) {
	var e *sandbox.Error
	if errors.As(err, &e) && e.Reason != "" {
		return e.Reason, e.Remedy
	}
	return err.Error(), ""
}
