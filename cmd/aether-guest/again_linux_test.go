package main

import (
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"aether/guest"
	"aether/guest/channel"
)

// lent is a stream that a host gives back rather than closes.
type lent struct{ in, out *os.File }

func (l lent) Read(b []byte) (int, error)  { return l.in.Read(b) }
func (l lent) Write(b []byte) (int, error) { return l.out.Write(b) }
func (l lent) Close() error                { return l.in.SetReadDeadline(time.Now()) }

// TestMeetsTheNextHost: in a sandbox that was restored, another host begins where
// the last one was cut off.
func TestMeetsTheNextHost(t *testing.T) {
	stream, input := startLent(t)
	for _, rest := range []string{"", "\x00\x00\x00\x01\x00", "no frame at all, and longer than the header of one"} {
		if _, err := input.WriteString(rest); err != nil {
			t.Fatal(err)
		}
		if err := stream.in.SetReadDeadline(time.Time{}); err != nil {
			t.Fatal(err)
		}
		dialer, err := channel.Connect(t.Context(), stream)
		if err != nil {
			t.Fatalf("after %q: %v", rest, err)
		}
		r := &running{client: guest.NewClient(dialer.Dial, guest.ClientOptions{})}
		if got := r.sh(t, "echo $$ > /dev/null; echo hello"); got != "hello" {
			t.Errorf("after %q: %q", rest, got)
		}
		r.client.Close()
		dialer.Close()
	}
}

func startLent(t *testing.T) (stream lent, input *os.File) {
	t.Helper()
	childIn, input, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	output, childOut, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program(), "-user", strconv.Itoa(os.Getuid()), "-workdir", "/")
	cmd.Stdin, cmd.Stdout = childIn, childOut
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	childIn.Close()
	childOut.Close()
	t.Cleanup(func() {
		input.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("it did not end well with its input: %v", err)
		}
		output.Close()
	})
	return lent{output, input}, input
}
