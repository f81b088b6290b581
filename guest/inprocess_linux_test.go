package guest_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"aether/guest"
	"aether/sandbox"
)

// TestInProcessErrorsAreThoseOfTheWire has calls fail over the wire and in-process.
func TestInProcessErrorsAreThoseOfTheWire(t *testing.T) {
	opts := asOurselves()
	opts.AccessToken = "secret"
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	late, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	start := func(ctx context.Context, cmd guest.Cmd) func(*guest.Client) error {
		return func(c *guest.Client) error { return ignore(c.Start(ctx, cmd)) }
	}
	connect := func(c *guest.Client) error { return ignore(c.Connect(t.Context(), 1<<30, guest.Cmd{})) }
	for _, c := range []struct {
		name string
		as   guest.ClientOptions
		call func(*guest.Client) error
	}{
		{"a program that is not there", guest.ClientOptions{}, start(t.Context(), guest.Cmd{Path: "no-such-program"})},
		{"no program", guest.ClientOptions{}, start(t.Context(), guest.Cmd{})},
		{"a directory that is not there", guest.ClientOptions{}, start(t.Context(), guest.Cmd{Path: "true", Dir: "/no/such"})},
		{"a variable without a name", guest.ClientOptions{}, start(t.Context(), guest.Cmd{Path: "true", Env: map[string]string{"": ""}})},
		{"text that is none", guest.ClientOptions{}, start(t.Context(), guest.Cmd{Path: "true", Args: []string{"\xff"}})},
		{"a path that is no text", guest.ClientOptions{}, start(t.Context(), guest.Cmd{Path: "\xff"})},
		{"a directory that is no text", guest.ClientOptions{}, start(t.Context(), guest.Cmd{Path: "true", Dir: "/\xff"})},
		{"a tag that is no text", guest.ClientOptions{}, start(t.Context(), guest.Cmd{Path: "true", Tag: "\xff"})},
		{"a variable's name that is no text", guest.ClientOptions{}, start(t.Context(), guest.Cmd{Path: "true", Env: map[string]string{"\xff": ""}})},
		{"a variable's value that is no text", guest.ClientOptions{}, start(t.Context(), guest.Cmd{Path: "true", Env: map[string]string{"A": "\xff"}})},
		{"a request that is too large by its variables", guest.ClientOptions{}, start(t.Context(), guest.Cmd{Path: "true", Env: map[string]string{"A": strings.Repeat("x", 17<<20)}})},
		{"a request that is too large", guest.ClientOptions{}, start(t.Context(), guest.Cmd{Path: "true", Args: []string{strings.Repeat("x", 17<<20)}})},
		{"a stranger", guest.ClientOptions{User: "no-such-user"}, start(t.Context(), sh("true"))},
		{"a context that has ended", guest.ClientOptions{}, start(cancelled, sh("true"))},
		{"a deadline that has passed", guest.ClientOptions{}, start(late, sh("true"))},
		{"a process that is not there", guest.ClientOptions{}, connect},
		{"a wrong token for start", guest.ClientOptions{AccessToken: "guess"}, start(t.Context(), sh("true"))},
		{"a wrong token for connect", guest.ClientOptions{AccessToken: "guess"}, connect},
		{"a process that takes too long", guest.ClientOptions{}, func(c *guest.Client) error {
			return tooLong(t, c)
		}},
		{"following that is stopped", guest.ClientOptions{}, func(c *guest.Client) error {
			ctx, cancel := context.WithCancel(t.Context())
			r, err := c.Start(ctx, guest.Cmd{Path: "sleep", Args: []string{"60"}})
			time.AfterFunc(20*time.Millisecond, cancel)
			return waitOf(r, err)
		}},
	} {
		if c.as.AccessToken == "" {
			c.as.AccessToken = opts.AccessToken
		}
		want, got := c.call(wire(service(t, "/", opts), c.as)), c.call(inProcess(service(t, "/", opts), c.as))
		sameError(t, c.name, got, want)
	}
}

func ignore(_ *guest.Running, err error) error { return err }

// tooLong is the error of a process that has started and does not end in time.
func tooLong(t *testing.T, c *guest.Client) error {
	for limit := 100 * time.Millisecond; ; limit *= 3 {
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		r, err := c.Start(ctx, guest.Cmd{Path: "sleep", Args: []string{"600"}})
		started := err == nil
		err = waitOf(r, err)
		cancel()
		if started || limit > patience {
			return err
		}
	}
}

func waitOf(r *guest.Running, err error) error {
	if err == nil {
		_, err = r.Wait()
	}
	return err
}

// sameError holds what callers decide on.
func sameError(t *testing.T, name string, got, want error) {
	t.Helper()
	var g, w *sandbox.Error
	if !errors.As(got, &g) || !errors.As(want, &w) {
		t.Errorf("%s: in-process %v, over the wire %v", name, got, want)
		return
	}
	if g.Class != w.Class || g.Op != w.Op || g.Field != w.Field || g.Retry != w.Retry {
		t.Errorf("%s: in-process %#v, over the wire %#v", name, g, w)
	}
}

// ended is an instance that has ended.
type ended struct{ sandbox.Instance }

var errEnded = &sandbox.Error{Class: sandbox.NotFound, Op: "test", Reason: "the sandbox has ended"}

func (ended) Dial(context.Context) (net.Conn, error) { return nil, errEnded }
func (ended) Guest() (guest.InProcessService, error) { return nil, errEnded }

func TestInProcessOfAnInstanceThatHasEnded(t *testing.T) {
	far := guest.NewClient(ended{}.Dial, guest.ClientOptions{})
	close := guest.ClientFor(ended{}, guest.ClientOptions{})
	sameError(t, "start", ignore(close.Start(t.Context(), sh("true"))), ignore(far.Start(t.Context(), sh("true"))))
	sameError(t, "connect", ignore(close.Connect(t.Context(), 1, guest.Cmd{})), ignore(far.Connect(t.Context(), 1, guest.Cmd{})))
}

// TestInProcessServiceIsClosed closes the service of a process that is followed, and
// calls it afterwards.
func TestInProcessServiceIsClosed(t *testing.T) {
	s := service(t, "/", asOurselves())
	client := inProcess(s, guest.ClientOptions{})
	r, err := client.Start(t.Context(), guest.Cmd{Path: "sleep", Args: []string{"60"}})
	if err != nil {
		t.Fatal(err)
	}
	waited := make(chan error, 1)
	go func() { waited <- waitOf(r, nil) }()
	time.Sleep(20 * time.Millisecond)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for name, err := range map[string]error{"wait": <-waited, "connect": ignore(client.Connect(t.Context(), r.Pid(), guest.Cmd{})),
		"start": ignore(client.Start(t.Context(), sh("true")))} {
		if sandbox.ClassOf(err) != sandbox.NotFound {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// noWire is an instance that can only be called in-process.
type noWire struct{ beside }

func (noWire) Dial(context.Context) (net.Conn, error) { return nil, errors.New("the wire was used") }

func TestInProcessNeedsNoWire(t *testing.T) {
	client := guest.ClientFor(noWire{beside{service: service(t, "/", asOurselves())}}, guest.ClientOptions{})
	cmd := sh("cat; echo err >&2; exit 3")
	cmd.Stdin = bytes.NewReader([]byte("in"))
	if got, err := run(t, client, cmd); err != nil || got.stdout != "in" || got.stderr != "err\n" || got.Code != 3 {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestInProcessKeepsNothingOfItsCaller changes a command after it was started.
func TestInProcessKeepsNothingOfItsCaller(t *testing.T) {
	client := here(t, inProcess)
	args := []string{"60"}
	r, err := client.Start(t.Context(), guest.Cmd{Path: "sleep", Args: args})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	args[0] = "changed"
	all, err := client.Processes(t.Context())
	if err != nil || len(all) != 1 || all[0].GetConfig().GetArgs()[0] != "60" {
		t.Errorf("%v, %v", all, err)
	}
}

// TestInProcessClosedEarlyLeavesNothing stops following a process, by its Close or by
// its context, whether somebody waits for it or not.
func TestInProcessClosedEarlyLeavesNothing(t *testing.T) {
	client := here(t, inProcess)
	r, err := client.Start(t.Context(), guest.Cmd{Path: "sleep", Args: []string{"60"}, StdinPipe: true})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	before := runtime.NumGoroutine()
	for i := range 100 {
		ctx, cancel := context.WithCancel(t.Context())
		again, err := client.Connect(ctx, r.Pid(), guest.Cmd{StdinPipe: true})
		if err != nil {
			t.Fatal(err)
		}
		waited := make(chan error, 1)
		if i%2 == 0 {
			go func() { waited <- waitOf(again, nil) }()
		} else {
			waited <- context.Canceled
		}
		if i%4 < 2 {
			again.Close()
		} else {
			cancel()
		}
		if err := <-waited; !errors.Is(err, context.Canceled) {
			t.Errorf("waiting ended with %v", err)
		}
		cancel()
	}
	waitFor(t, "the end of all goroutines", func() bool { return runtime.NumGoroutine() <= before })
}

// TestFollowingThatWasStoppedHoldsNothingBack leaves a process that writes, without
// ever having read from it.
func TestFollowingThatWasStoppedHoldsNothingBack(t *testing.T) {
	bothWays(t, func(t *testing.T, to way) {
		client := here(t, to)
		ctx, cancel := context.WithCancel(t.Context())
		r, err := client.Start(ctx, sh("head -c 4000000 /dev/zero; exit 9"))
		if err != nil {
			t.Fatal(err)
		}
		cancel() // and no Close
		waitFor(t, "the process's end", func() bool {
			all, err := client.Processes(t.Context())
			return err == nil && len(all) == 0
		})
		again, err := client.Connect(t.Context(), r.Pid(), guest.Cmd{})
		if err != nil {
			t.Fatal(err)
		}
		if status, err := again.Wait(); err != nil || status.Code != 9 {
			t.Errorf("%+v, %v", status, err)
		}
	})
}

// TestSlowReaderHoldsTheProcessBack takes nothing for a while from a process that
// notes when it is done, and then everything.
func TestSlowReaderHoldsTheProcessBack(t *testing.T) { bothWays(t, testSlowReader) }

func testSlowReader(t *testing.T, to way) {
	const size = 8 << 20 // more than is kept, and than any wire holds
	client := here(t, to)
	done := filepath.Join(t.TempDir(), "done")
	slow := &slowWriter{release: make(chan struct{})}
	r, err := client.Start(t.Context(), guest.Cmd{Path: "sh", Args: []string{"-c", fmt.Sprintf("head -c %d /dev/zero; touch %s", size, done)}, Stdout: slow})
	if err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(300*time.Millisecond, func() {
		if _, err := os.Stat(done); err == nil {
			t.Error("the process has not waited for its reader")
		}
		close(slow.release)
	})
	if status, err := r.Wait(); err != nil || status.Code != 0 || slow.count != size {
		t.Errorf("%+v, %v, %d bytes", status, err, slow.count)
	}
}

type slowWriter struct {
	release chan struct{}
	count   int
}

func (w *slowWriter) Write(p []byte) (int, error) {
	<-w.release
	w.count += len(p)
	return len(p), nil
}

func TestStdinPipe(t *testing.T) { bothWays(t, testStdinPipe) }

func testStdinPipe(t *testing.T, to way) {
	client := here(t, to)
	lines := make(lineWriter, 10)
	r, err := client.Start(t.Context(), guest.Cmd{Path: "cat", StdinPipe: true, Stdout: lines})
	if err != nil {
		t.Fatal(err)
	}
	waited := make(chan error, 1)
	go func() { waited <- waitOf(r, nil) }()
	for _, text := range []string{"one", "two"} {
		if _, err := io.WriteString(r.Stdin(), text+"\n"); err != nil {
			t.Fatal(err)
		}
		lines.wait(text)
	}
	if err := r.Stdin().Close(); err != nil {
		t.Error(err)
	}
	if err := <-waited; err != nil {
		t.Error(err)
	}
	if _, err := io.WriteString(r.Stdin(), "three"); err == nil {
		t.Error("a process that has ended was written to")
	}
}

// TestStdinPipeIsCutOff stops following a process that does not read while two
// wait to write to it; its input does not end.
func TestStdinPipeIsCutOff(t *testing.T) { bothWays(t, testStdinPipeIsCutOff) }

func testStdinPipeIsCutOff(t *testing.T, to way) {
	client := here(t, to)
	// It reads only when it is told to, and then to the end.
	r, err := client.Start(t.Context(), guest.Cmd{Path: "sh", Args: []string{"-c", "trap 'exec cat >/dev/null' USR1; while :; do sleep 0.02; done"}, StdinPipe: true})
	if err != nil {
		t.Fatal(err)
	}
	waitFor(t, "its trap", func() bool { return catches(t, r.Pid(), syscall.SIGUSR1) })
	other, err := client.Connect(t.Context(), r.Pid(), guest.Cmd{StdinPipe: true})
	if err != nil {
		t.Fatal(err)
	}
	// The second to write is the first to be cut off.
	for _, cut := range cutOff(t, r, other) {
		cut()
	}
	if _, err := io.WriteString(r.Stdin(), "x"); sandbox.ClassOf(err) != sandbox.Conflict {
		t.Errorf("a write to what is not followed: %v", err)
	}
	again, err := client.Connect(t.Context(), r.Pid(), guest.Cmd{StdinPipe: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Signal(t.Context(), syscall.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	time.AfterFunc(100*time.Millisecond, func() { again.Stdin().Close() })
	if status, err := again.Wait(); err != nil || status != (guest.Status{}) || time.Since(began) < 90*time.Millisecond {
		t.Errorf("%+v, %v after %v: the input ended with the first pipe", status, err, time.Since(began))
	}
}

// catches says whether a process has a handler for a signal.
func catches(t *testing.T, pid int, signal syscall.Signal) bool {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(text), "SigCgt:")
	mask, err := strconv.ParseUint(strings.Fields(after)[0], 16, 64)
	if err != nil {
		t.Fatal(err)
	}
	return mask&(1<<(signal-1)) != 0
}

// cutOff has each write more than a pipe holds, in turn, and gives what ends that,
// the last first.
func cutOff(t *testing.T, list ...*guest.Running) (cuts []func()) {
	for _, r := range list {
		wrote := make(chan error, 1)
		go func() {
			_, err := r.Stdin().Write(make([]byte, 1<<20))
			wrote <- err
		}()
		time.Sleep(50 * time.Millisecond) // it is waiting by then
		cuts = append([]func(){func() {
			if err := r.Close(); err != nil {
				t.Error(err)
			}
			if err := <-wrote; sandbox.ClassOf(err) != sandbox.Conflict {
				t.Errorf("a write that was cut off: %v", err)
			}
		}}, cuts...)
	}
	return cuts
}

// brokenReader gives some bytes and then fails.
type brokenReader struct{ given bool }

var errBroken = errors.New("the disk is gone")

func (r *brokenReader) Read(p []byte) (int, error) {
	if r.given {
		return 0, errBroken
	}
	r.given = true
	return copy(p, "half"), nil
}

// TestInputThatCannotBeRead wants the process to end with what could be read, and
// its caller to know that it was not all.
func TestInputThatCannotBeRead(t *testing.T) {
	bothWays(t, func(t *testing.T, to way) {
		var out bytes.Buffer
		r, err := here(t, to).Start(t.Context(), guest.Cmd{Path: "sh", Args: []string{"-c", "cat; exit 3"}, Stdin: &brokenReader{}, Stdout: &out})
		if err != nil {
			t.Fatal(err)
		}
		if status, err := r.Wait(); !errors.Is(err, errBroken) || status.Code != 3 || out.String() != "half" {
			t.Errorf("%+v, %v, %q", status, err, out.String())
		}
	})
}
