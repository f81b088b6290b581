package cli

import (
	"context"
	"errors"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"aether/guest"
	"aether/sandbox"
)

const (
	// maxForwarded bounds the connections of one forwarded port.
	maxForwarded  = 256
	forwardedDial = 30 * time.Second
)

// forward is a port of a sandbox that is reached by an address of this host.
type forward struct {
	Local string `json:"local"`
	Port  int    `json:"port"`
}

// parseForwards reads [ADDRESS:]LOCAL:PORT, or PORT for the same number here.
func parseForwards(field string, texts []string) (list []forward, err error) {
	for _, text := range texts {
		here, inside := text, text
		if at := strings.LastIndexByte(text, ':'); at >= 0 {
			here, inside = text[:at], text[at+1:]
		}
		address := "127.0.0.1"
		if at := strings.LastIndexByte(here, ':'); at >= 0 {
			address, here = strings.Trim(here[:at], "[]"), here[at+1:]
		}
		local, bad := strconv.ParseUint(here, 10, 16)
		port, err := strconv.ParseUint(inside, 10, 16)
		if bad != nil || err != nil || port == 0 || net.ParseIP(address) == nil {
			return nil, &sandbox.Error{Class: sandbox.Invalid, Field: field, Reason: strconv.Quote(clipText(text)) + " is not [ADDRESS:]LOCAL:PORT",
				Remedy: "as 8080:80, 0:80 for any free port here, or 0.0.0.0:8080:80 for other hosts too"}
		}
		list = append(list, forward{net.JoinHostPort(address, strconv.FormatUint(local, 10)), int(port)})
	}
	return list, nil
}

func clipText(text string) string { return text[:min(len(text), 60)] }

// portDialer connects to a port of a sandbox.
type portDialer func(ctx context.Context, port int) (guest.PortConn, error)

// forwarder carries connections of this host to ports of a sandbox.
type forwarder struct {
	dial portDialer
	cmd  *cobra.Command
	ctx  context.Context
	end  context.CancelCauseFunc

	listeners []net.Listener
	serving   sync.WaitGroup
}

// startForwards listens for all of them, or for none. Close must follow.
func startForwards(cmd *cobra.Command, dial portDialer, list []forward) (*forwarder, error) {
	f := &forwarder{dial: dial, cmd: cmd}
	f.ctx, f.end = context.WithCancelCause(cmd.Context())
	for i := range list {
		l, err := net.Listen("tcp", list[i].Local)
		if err != nil {
			f.Close()
			return nil, &sandbox.Error{Class: sandbox.Unavailable, Op: "listen at " + list[i].Local, Err: err}
		}
		list[i].Local = l.Addr().String()
		f.listeners = append(f.listeners, l)
		f.serving.Go(func() { f.serve(l, list[i].Port) })
	}
	return f, nil
}

// Close ends all connections.
func (f *forwarder) Close() {
	f.end(nil)
	for _, l := range f.listeners {
		l.Close()
	}
	f.serving.Wait()
}

func (f *forwarder) serve(l net.Listener, port int) {
	room := make(chan struct{}, maxForwarded)
	for {
		conn, err := l.Accept()
		if err != nil {
			if !errors.Is(err, net.ErrClosed) {
				f.end(err)
			}
			return
		}
		room <- struct{}{}
		f.serving.Go(func() {
			defer func() { <-room }()
			f.carry(conn.(*net.TCPConn), port)
		})
	}
}

// carry carries one connection. A sandbox that is gone ends the forwarding.
func (f *forwarder) carry(conn *net.TCPConn, port int) {
	defer conn.Close()
	ctx, cancel := context.WithTimeout(f.ctx, forwardedDial)
	to, err := f.dial(ctx, port)
	cancel()
	if err != nil {
		if sandbox.ClassOf(err) == sandbox.NotFound {
			f.end(err)
		} else if f.ctx.Err() == nil {
			printError(f.cmd, "aether: %v", ofSandbox(err))
		}
		_ = conn.SetLinger(0) // so that the caller is told, and does not wait for an answer
		return
	}
	defer to.Close()
	defer context.AfterFunc(f.ctx, func() { conn.Close(); to.Close() })()
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		if _, err := io.Copy(to, conn); err == nil {
			_ = to.CloseWrite() // a port that is closed is told of by what it answers
		}
	}()
	if _, err := io.Copy(conn, to); err != nil {
		_ = conn.SetLinger(0) // it broke off, and did not end
		conn.Close()
	} else {
		_ = conn.CloseWrite()
	}
	to.Close()
	conn.Close()
	<-sent
}
