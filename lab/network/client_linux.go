package network

import (
	"bufio"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"aether/internal/host/spawn"
	"aether/lab"
)

//go:embed client/main.go
var clientSource []byte

// buildClient builds the program that is measured, static, and gives its path.
func buildClient(ctx context.Context, dir string) (string, error) {
	source, built := filepath.Join(dir, "main.go"), filepath.Join(dir, "client")
	if err := os.WriteFile(source, clientSource, 0o644); err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", built, source)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the client: %w: %s", err, out)
	}
	return built, nil
}

// client is the program inside a sandbox, which does what it is told.
type client struct {
	in   io.WriteCloser
	out  *bufio.Reader
	stop func() error // ends it, and whatever it is in
	said func() string
}

// patience bounds the wait for any one answer.
const patience = 2 * time.Minute

// ready waits until the client has reached the server.
func (c *client) ready() error {
	line, err := c.line()
	if err == nil && line != "ready" {
		err = fmt.Errorf("the client says %q", line)
	}
	return err
}

func (c *client) line() (string, error) {
	late := time.AfterFunc(patience, func() { c.in.Close() }) // it ends then
	defer late.Stop()
	line, err := c.out.ReadString('\n')
	if err != nil {
		return "", fmt.Errorf("the client has ended: %w: %s", err, c.said())
	}
	return strings.TrimSpace(line), nil
}

// ask has something measured, for a time, and gives what one of it takes.
func (c *client) ask(what string, during time.Duration, unit float64) (lab.Sample, error) {
	if _, err := fmt.Fprintln(c.in, what, int64(during)); err != nil {
		return lab.Sample{}, fmt.Errorf("%w: %s", err, c.said())
	}
	line, err := c.line()
	if err != nil {
		return lab.Sample{}, err
	}
	var amount, took int64
	if _, err := fmt.Sscan(line, &amount, &took); err != nil || amount <= 0 || took <= 0 {
		return lab.Sample{}, errors.Join(fmt.Errorf("%s: the client says %q", what, line), err)
	}
	return lab.Sample{First: time.Duration(float64(took) * unit / float64(amount))}, nil
}

// host starts programs of this host. A thread of its own starts them: they are killed
// when it ends.
type host struct{ thread *spawn.Thread }

func newHost() (*host, error) {
	t, err := spawn.NewThread(func() error { return nil })
	return &host{t}, err
}

func (h *host) start(cmd *exec.Cmd) error {
	// A process group of its own, so that an interrupt from the terminal ends this program
	// first, which then takes the rest down.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	return h.thread.Do(cmd.Start)
}

// talk starts a program, speaks to it by its standard input and output, and keeps what it
// says besides.
func (h *host) talk(cmd *exec.Cmd) (*client, error) {
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	var said lastWords
	cmd.Stderr = &said
	if err := h.start(cmd); err != nil {
		return nil, err
	}
	stop := func() error {
		in.Close()
		return end(cmd)
	}
	return &client{in: in, out: bufio.NewReader(out), stop: stop, said: said.String}, nil
}

// end kills a program, with which what it started ends, and waits for it.
func end(cmd *exec.Cmd) error {
	if err := cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	var exit *exec.ExitError
	if err := cmd.Wait(); err != nil && !errors.As(err, &exit) {
		return err
	}
	return nil
}

// serve starts the server at an address and says where it listens.
func (h *host) serve(program, address string) (at string, stop func() error, err error) {
	c, err := h.talk(exec.Command(program, "serve", address))
	if err != nil {
		return "", nil, err
	}
	if at, err = c.line(); err != nil {
		return "", nil, errors.Join(err, c.stop())
	}
	return at, c.stop, nil
}
