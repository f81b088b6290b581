package drivertest

import (
	"bufio"
	"fmt"
	"io"
	"os"
	osexec "os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"aether/guest"
)

// neighbourVariable names the program of driver/drivertest/neighbour where it is built
// already: for tests that run where there is no Go, or as another user.
const neighbourVariable = "AETHER_DRIVERTEST_NEIGHBOUR"

// Built is a variable of the form NAME=value for tests of the suite that are run as
// another user, who need not have Go: with it they find what the suite builds.
func Built(t testing.TB) string {
	t.Helper()
	return neighbourVariable + "=" + buildNeighbour(t)
}

// buildNeighbour builds the program, which runs in any sandbox: it needs no library.
func buildNeighbour(t testing.TB) string {
	t.Helper()
	path, err := tryNeighbour(t)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// tryNeighbour is buildNeighbour for whoever may not end the test, with which what was
// built goes.
func tryNeighbour(t testing.TB) (string, error) {
	if path := os.Getenv(neighbourVariable); path != "" {
		return path, nil
	}
	dir, err := os.MkdirTemp("", "aether-neighbour-")
	if err != nil {
		return "", err
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o711); err != nil {
		return "", err
	}
	path := filepath.Join(dir, "neighbour")
	cmd := osexec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", path, "aether/driver/drivertest/neighbour")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w\n%s", err, out)
	}
	return path, nil
}

// neighbour is that program, running somewhere.
type neighbour struct {
	config  Config
	orders  io.WriteCloser
	answers chan string
}

// asRoot starts the program as the root of a sandbox, or nothing where it has none.
func (b *box) asRoot(t *testing.T, program string) *neighbour {
	t.Helper()
	client := b.as(t, "root")
	if _, err := exec(b.config.patient(t), client, shell("true")); err != nil {
		t.Logf("no root inside: %v", err)
		return nil
	}
	return b.neighbour(t, client, program, "root")
}

// neighbour starts the program in a sandbox.
func (b *box) neighbour(t *testing.T, client *guest.Client, program, mark string) *neighbour {
	t.Helper()
	const inside = "/tmp/neighbour"
	if _, err := b.Stat(b.config.patient(t), inside); err != nil {
		file, err := os.Open(program)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		if err := b.Write(b.config.patient(t), inside+".new", file); err != nil {
			t.Fatal(err)
		}
		b.sh(t, fmt.Sprintf("cp %[1]s.new %[1]s && chmod 755 %[1]s", inside)) // as equip does
	}
	n, in, out := newNeighbour(b.config)
	running, err := client.Start(t.Context(), guest.Cmd{Path: inside, Args: []string{mark}, Stdin: in, Stdout: out, Stderr: out})
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		status, err := running.Wait()
		fmt.Fprintf(out, "it ended: %+v, %v\n", status, err)
		out.Close()
	}()
	t.Cleanup(func() { n.orders.Close() })
	return n
}

// hostNeighbour starts it on the host.
func (c Config) hostNeighbour(t *testing.T, program string) *neighbour {
	t.Helper()
	n, in, out := newNeighbour(c)
	cmd := osexec.Command(program, "host")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in, out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		n.orders.Close()
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	})
	return n
}

func newNeighbour(c Config) (n *neighbour, in *io.PipeReader, out *io.PipeWriter) {
	in, orders := io.Pipe()
	answers, out := io.Pipe()
	n = &neighbour{config: c, orders: orders, answers: make(chan string)}
	go func() {
		defer close(n.answers)
		for scan := bufio.NewScanner(answers); scan.Scan(); {
			n.answers <- scan.Text()
		}
	}()
	return n, in, out
}

func (n *neighbour) ask(t *testing.T, order string) string {
	t.Helper()
	if _, err := fmt.Fprintln(n.orders, order); err != nil {
		t.Fatalf("%s: %v", order, err)
	}
	select {
	case answer := <-n.answers:
		return answer
	case <-time.After(n.config.patience()):
		t.Fatalf("%s: no answer", order)
	}
	return ""
}

// want asks and wants an answer that begins so.
func (n *neighbour) want(t *testing.T, order, begins string) {
	t.Helper()
	if said := n.ask(t, order); !strings.HasPrefix(said, begins) {
		t.Fatalf("%s: %q, want %q", order, said, begins)
	}
}
