package drivertest

import (
	"io"
	"strings"
	"testing"

	"aether/guest"
	"aether/sandbox"
)

func (s *suite) terminals() []test {
	return []test{{"size and input", s.terminal}, {"resize", s.resize}, {"control-c", s.interrupt}}
}

func (s *suite) terminal(t *testing.T) {
	b := s.make(t, sandbox.Spec{})
	cmd := shell("tty; stty size; read line; echo got $line > /dev/tty")
	cmd.Terminal, cmd.Stdin = &guest.Size{Cols: 120, Rows: 40}, strings.NewReader("words\n")
	got, err := exec(s.patient(t), b.Client, cmd)
	if err != nil || got.Code != 0 {
		t.Fatalf("%+v, %v", got, err)
	}
	for _, want := range []string{"/dev/pts/", "40 120", "got words"} {
		if !strings.Contains(got.stdout, want) {
			t.Errorf("%q is not in %q", want, got.stdout)
		}
	}
}

// session is a command on a terminal that is typed to.
func (s *suite) session(t *testing.T, b *box, script string) (*guest.Running, *lines, io.Writer, chan outcome) {
	t.Helper()
	keys, typed := io.Pipe()
	t.Cleanup(func() { typed.Close() })
	screen := newLines()
	cmd := shell(script)
	cmd.Terminal, cmd.Stdin, cmd.Stdout = &guest.Size{Cols: 80, Rows: 24}, keys, screen
	running, err := b.Client.Start(s.patient(t), cmd)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan outcome, 1)
	go func() {
		status, err := running.Wait()
		if err != nil {
			t.Errorf("wait: %v", err)
		}
		ended <- outcome{Status: status}
	}()
	return running, screen, typed, ended
}

func (s *suite) resize(t *testing.T) {
	b := s.make(t, sandbox.Spec{})
	running, screen, typed, ended := s.session(t, b, "trap 'stty size; exit 0' WINCH; echo ready; while :; do sleep 0.05; done")
	screen.await(t, s.Config, "ready")
	if err := running.Resize(s.patient(t), guest.Size{Cols: 101, Rows: 33}); err != nil {
		t.Fatal(err)
	}
	screen.await(t, s.Config, "33 101")
	if got := <-ended; got.Code != 0 {
		t.Errorf("%+v", got.Status)
	}
	_ = typed
}

func (s *suite) interrupt(t *testing.T) {
	b := s.make(t, sandbox.Spec{})
	// With exec: some shells lose a signal that comes while they fork.
	_, screen, typed, ended := s.session(t, b, "echo ready; exec sleep 1000")
	screen.await(t, s.Config, "ready")
	if _, err := typed.Write([]byte{3}); err != nil {
		t.Fatal(err)
	}
	if got := <-ended; got.Code == 0 && got.Signal == 0 {
		t.Errorf("%+v, %q", got.Status, screen)
	}
}
