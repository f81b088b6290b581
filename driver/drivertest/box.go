package drivertest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"aether/guest"
	"aether/sandbox"
)

// patient gives a context that is cancelled after some time. It has no deadline:
// the sandbox would take that for the command's own.
func (c Config) patient(t testing.TB) context.Context {
	ctx, cancel := context.WithCancelCause(t.Context())
	limit := c.patience()
	timer := time.AfterFunc(limit, func() { cancel(fmt.Errorf("drivertest: it took longer than %v", limit)) })
	t.Cleanup(func() { timer.Stop(); cancel(nil) })
	return ctx
}

// box is a sandbox under test.
type box struct {
	sandbox.Instance
	*guest.Client
	config Config
}

// make makes a sandbox that is destroyed with the test.
func (s *suite) make(t testing.TB, spec sandbox.Spec) *box {
	t.Helper()
	b, err := s.try(t, spec)
	if err != nil {
		t.Fatalf("create: %v", err)
	}
	return b
}

// offered makes a sandbox, or skips what the driver says it cannot give here.
func (s *suite) offered(t testing.TB, spec sandbox.Spec) *box {
	t.Helper()
	b, err := s.try(t, spec)
	if class := sandbox.ClassOf(err); err != nil && (class == sandbox.Unsupported || class == sandbox.Unavailable) {
		t.Skipf("the driver refuses it: %v", err)
	}
	if err != nil {
		t.Fatalf("create: %v", err)
	}
	return b
}

func (s *suite) try(t testing.TB, spec sandbox.Spec) (*box, error) {
	t.Helper()
	if spec.Image == "" {
		spec.Image = s.Image
	}
	instance, err := s.driver.Create(s.patient(t), spec)
	if err != nil {
		return nil, err
	}
	return s.wrap(t, instance), nil
}

func (c Config) wrap(t testing.TB, instance sandbox.Instance) *box {
	t.Helper()
	b := &box{Instance: instance, Client: guest.NewClient(instance.Dial, guest.ClientOptions{}), config: c}
	t.Cleanup(func() {
		b.Client.Close()
		b.destroy(t)
	})
	return b
}

// as is a client of the same sandbox for another user.
func (b *box) as(t testing.TB, user string) *guest.Client {
	c := guest.NewClient(b.Dial, guest.ClientOptions{User: user})
	t.Cleanup(c.Close)
	return c
}

func (b *box) destroy(t testing.TB) {
	t.Helper()
	began := time.Now()
	if err := b.Destroy(context.Background()); err != nil {
		t.Errorf("destroy %s: %v", b.ID(), err)
	}
	if took := time.Since(began); took > b.config.patience() {
		t.Errorf("destroy took %v", took)
	}
}

// outcome is what a command wrote and how it ended.
type outcome struct {
	stdout, stderr string
	guest.Status
}

func shell(text string) guest.Cmd { return guest.Cmd{Path: "/bin/sh", Args: []string{"-c", text}} }

// exec runs a command to its end.
func exec(ctx context.Context, c *guest.Client, cmd guest.Cmd) (outcome, error) {
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	running, err := c.Start(ctx, cmd)
	if err != nil {
		return outcome{}, err
	}
	status, err := running.Wait()
	return outcome{stdout.String(), stderr.String(), status}, err
}

// sh runs a script and wants it to succeed.
func (b *box) sh(t testing.TB, text string) string {
	t.Helper()
	out, err := exec(b.config.patient(t), b.Client, shell(text))
	if err != nil || out.Code != 0 || out.Signal != 0 {
		t.Fatalf("%q: code %d, signal %d, error %v\n%s%s", text, out.Code, out.Signal, err, out.stdout, out.stderr)
	}
	return strings.TrimSpace(out.stdout)
}

// start starts a script and leaves it running.
func (b *box) start(t testing.TB, text string) *guest.Running {
	t.Helper()
	running, err := b.Client.Start(t.Context(), shell(text))
	if err != nil {
		t.Fatalf("start %q: %v", text, err)
	}
	return running
}

func wantClass(t testing.TB, err error, want ...sandbox.Class) {
	t.Helper()
	for _, class := range want {
		if err != nil && sandbox.ClassOf(err) == class {
			return
		}
	}
	t.Errorf("class %v, want one of %v: %v", sandbox.ClassOf(err), want, err)
}

// namesField looks through the whole chain: an outer error may add no field.
func namesField(err error, field string) bool {
	var e *sandbox.Error
	return errors.As(err, &e) && (e.Field == field || namesField(e.Err, field))
}

// eventually waits for something that takes its time.
func (c Config) eventually(holds func() bool) bool {
	limit := c.patience()
	if os.Getenv(hastyVariable) != "" {
		limit = hastyTime
	}
	for deadline := time.Now().Add(limit); ; time.Sleep(5 * time.Millisecond) {
		if holds() {
			return true
		}
		if time.Now().After(deadline) {
			return false
		}
	}
}

// soon does something again while the driver says that this may help: a process may just end,
// or wait for a disk, while it is read.
func (c Config) soon(do func() error) (err error) {
	c.eventually(func() bool {
		err = do()
		var refusal *sandbox.Error
		return !errors.As(err, &refusal) || refusal.Class != sandbox.Conflict || !refusal.Retry
	})
	return err
}
