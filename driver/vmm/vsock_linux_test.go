package vmm

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"aether/sandbox"
)

// fakeVsock is the socket of a monitor that answers each connection in some way.
func fakeVsock(t testing.TB, answer func(line string, conn net.Conn)) *guestDialer {
	t.Helper()
	listener, err := net.Listen("unix", filepath.Join(t.TempDir(), Vsock))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				line, _ := bufio.NewReader(conn).ReadString('\n')
				answer(line, conn)
			}()
		}
	}()
	return newGuestDialer(func(ctx context.Context) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", listener.Addr().String())
	})
}

func TestGuestIsAskedFor(t *testing.T) {
	asked := make(chan string, 1)
	d := fakeVsock(t, func(line string, conn net.Conn) {
		asked <- line
		// The first bytes of the guest may come with the answer.
		fmt.Fprint(conn, "OK 1073741824\nhello from the guest")
	})
	conn, err := d.Dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if got := <-asked; got != "CONNECT 1024\n" {
		t.Errorf("asked %q", got)
	}
	if got, err := io.ReadAll(conn); err != nil || string(got) != "hello from the guest" {
		t.Errorf("%q, %v", got, err)
	}
}

func TestBadAnswersOfAVsock(t *testing.T) {
	for name, answer := range map[string]string{
		"nothing":        "",
		"an end":         "\n",
		"no number":      "OK\n",
		"another number": "OK -1\n",
		"a large number": "OK 99999999999\n",
		"another word":   "NO 1\n",
		"half a line":    "OK 10",
		"an endless one": strings.Repeat("OK ", 1<<16),
		"zero bytes":     strings.Repeat("\x00", 100),
	} {
		d := fakeVsock(t, func(_ string, conn net.Conn) { fmt.Fprint(conn, answer) })
		_, err := d.Dial(t.Context())
		if sandbox.ClassOf(err) != sandbox.Unavailable || len(err.Error()) > 500 {
			t.Errorf("%s: %v", name, err)
		}
		if len(d.open) != 0 {
			t.Errorf("%s: %d connections are left", name, len(d.open))
		}
	}
}

func TestSilentVsock(t *testing.T) {
	d := fakeVsock(t, func(string, net.Conn) { <-t.Context().Done() })
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := d.Dial(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("silence: %v", err)
	}
	// Its end ends those who wait for an answer.
	waiting := make(chan error, 1)
	go func() {
		_, err := d.Dial(t.Context())
		waiting <- err
	}()
	time.Sleep(50 * time.Millisecond)
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	select {
	case err := <-waiting:
		if sandbox.ClassOf(err) != sandbox.NotFound {
			t.Errorf("the end: %v", err)
		}
	case <-time.After(patience):
		t.Error("it is waited for")
	}
	if _, err := d.Dial(t.Context()); sandbox.ClassOf(err) != sandbox.NotFound {
		t.Errorf("after the end: %v", err)
	}
}

// patience is how long something may take on a machine whose processors others have.
const patience = 2 * time.Minute

// A guest that boots refuses connections until its service listens.
func TestAwaitGuest(t *testing.T) {
	refusals := make(chan struct{}, 3)
	for range cap(refusals) {
		refusals <- struct{}{}
	}
	d := fakeVsock(t, func(_ string, conn net.Conn) {
		select {
		case <-refusals:
		default:
			fmt.Fprint(conn, "OK 1\n")
		}
	})
	if err := d.await(t.Context(), nil); err != nil || len(refusals) != 0 {
		t.Errorf("%v, %d refusals are left", err, len(refusals))
	}
	// The connection by which it was found is the next one's, and of nobody after that.
	if len(d.open) != 1 {
		t.Errorf("%d connections are open", len(d.open))
	}
	if err := d.await(t.Context(), nil); err != nil || len(d.open) != 1 {
		t.Errorf("asked again: %v, %d connections are open", err, len(d.open))
	}
	var last net.Conn
	for n := range 2 {
		conn, err := d.Dial(t.Context())
		if err != nil || conn == last || len(d.open) != n+1 {
			t.Errorf("%v, %d connections are open", err, len(d.open))
		}
		defer conn.Close()
		last = conn
	}
	if err := d.await(t.Context(), nil); err != nil {
		t.Error(err)
	}
	old := d.spare
	d.spareSince = time.Now().Add(-spareTime)
	conn, err := d.Dial(t.Context())
	if err != nil || conn == net.Conn(old) || old.Close() == nil || len(d.open) != 3 {
		t.Errorf("one that waited for long: %v, %d connections are open", err, len(d.open))
	}
	conn.Close()
	ended := make(chan struct{})
	close(ended)
	dead := fakeVsock(t, func(string, net.Conn) {})
	if err := dead.await(t.Context(), ended); err == nil {
		t.Error("a machine that has ended answers")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := dead.await(ctx, nil); sandbox.ClassOf(err) != sandbox.Timeout {
		t.Errorf("one that never does: %v", err)
	}
}

func TestCutConnections(t *testing.T) {
	d := fakeVsock(t, func(_ string, conn net.Conn) {
		fmt.Fprint(conn, "OK 1\n")
		_, _ = io.Copy(io.Discard, conn)
	})
	conn, err := d.Dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	d.cut()
	if _, err := conn.Read(make([]byte, 1)); err == nil {
		t.Error("a connection outlives what it goes through")
	}
	if err := conn.Close(); err == nil {
		t.Error("it was not closed")
	}
	again, err := d.Dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	again.Close()
}

// FuzzHandshake feeds the host whatever a monitor may answer.
func FuzzHandshake(f *testing.F) {
	for _, seed := range []string{"OK 1\n", "OK 1073741824\nrest", "OK", "", "\n", "OK \n", "ok 1\n"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, answer []byte) {
		ours, theirs := net.Pipe()
		go func() {
			_, _ = bufio.NewReader(theirs).ReadString('\n')
			_, _ = theirs.Write(answer)
			theirs.Close()
		}()
		defer ours.Close()
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		err := handshake(ctx, ours, guestPort)
		if err == nil && !strings.HasPrefix(string(answer), "OK ") {
			t.Errorf("%q is taken for a connection", answer)
		}
		if ctx.Err() != nil {
			t.Errorf("%q is waited for", answer)
		}
	})
}
