package drivertest

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"io"
	"strings"
	"testing"

	"aether/guest"
	"aether/sandbox"
)

func (s *suite) streams() []test {
	return []test{
		{"bytes survive", s.bytesSurvive}, {"much output", s.muchOutput}, {"both at once", s.bothAtOnce},
		{"input ends", s.inputEnds}, {"unread input", s.unreadInput}, {"output after the end", s.outputAfterEnd},
	}
}

// megabytes is how much is sent to and fro.
func (s *suite) megabytes(n int) int64 { return int64(s.few(n)) << 20 }

func random(t testing.TB, n int64) []byte {
	t.Helper()
	data := make([]byte, n)
	if _, err := rand.Read(data); err != nil {
		t.Fatal(err)
	}
	return data
}

func (s *suite) bytesSurvive(t *testing.T) {
	b := s.make(t, sandbox.Spec{})
	sent := random(t, s.megabytes(8))
	got, err := exec(s.patient(t), b.Client, guest.Cmd{Path: "cat", Stdin: bytes.NewReader(sent)})
	if err != nil || got.stdout != string(sent) {
		t.Errorf("%d bytes came back as %d others (%v)", len(sent), len(got.stdout), err)
	}
}

func (s *suite) muchOutput(t *testing.T) {
	b := s.make(t, sandbox.Spec{})
	want := s.megabytes(64)
	var count counter
	cmd := shell(fmt.Sprintf("exec head -c %d /dev/zero", want))
	cmd.Stdout = &count
	running, err := b.Client.Start(s.patient(t), cmd)
	if err != nil {
		t.Fatal(err)
	}
	if status, err := running.Wait(); err != nil || status.Code != 0 || int64(count) != want {
		t.Errorf("%d bytes of %d, %+v, %v", count, want, status, err)
	}
}

// counter is a writer that only counts.
type counter int64

func (c *counter) Write(b []byte) (int, error) {
	*c += counter(len(b))
	return len(b), nil
}

func (s *suite) bothAtOnce(t *testing.T) {
	b := s.make(t, sandbox.Spec{})
	got, err := exec(s.patient(t), b.Client, shell("for i in 1 2 3 4 5 6 7 8 9; do echo out $i; echo err $i >&2; done"))
	if err != nil || strings.Count(got.stdout, "out") != 9 || strings.Count(got.stderr, "err") != 9 || strings.Contains(got.stdout, "err") {
		t.Errorf("%+v, %v", got, err)
	}
}

func (s *suite) inputEnds(t *testing.T) {
	b := s.make(t, sandbox.Spec{})
	sent := random(t, 300_000)
	got, err := exec(s.patient(t), b.Client, guest.Cmd{Path: "sha256sum", Stdin: bytes.NewReader(sent)})
	if want := fmt.Sprintf("%x", sha256.Sum256(sent)); err != nil || !strings.HasPrefix(got.stdout, want) {
		t.Errorf("%q, %v; want %s", got.stdout, err, want)
	}
	got, err = exec(s.patient(t), b.Client, guest.Cmd{Path: "cat"})
	if err != nil || got.stdout != "" || got.Code != 0 {
		t.Errorf("without input: %+v, %v", got, err)
	}
}

// unreadInput: a command that does not read must still end.
func (s *suite) unreadInput(t *testing.T) {
	b := s.make(t, sandbox.Spec{})
	cmd := shell("exit 5")
	cmd.Stdin = io.LimitReader(zeros{}, 4<<20)
	if got, err := exec(s.patient(t), b.Client, cmd); err != nil || got.Code != 5 {
		t.Errorf("%+v, %v", got.Status, err)
	}
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) {
	clear(b)
	return len(b), nil
}

// outputAfterEnd: what a child of the command writes later is still its output.
func (s *suite) outputAfterEnd(t *testing.T) {
	b := s.make(t, sandbox.Spec{})
	got, err := exec(s.patient(t), b.Client, shell("(sleep 0.3; echo late) & echo early"))
	if err != nil || got.stdout != "early\nlate\n" {
		t.Errorf("%q, %v", got.stdout, err)
	}
}
