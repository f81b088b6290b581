package daemon

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"aether/rest"
)

// server is a daemon, as its users start it.
type server struct {
	cmd       *exec.Cmd
	socket    string
	address   string // of TCP
	key       string
	unix, tcp *rest.Client
	log       *bytes.Buffer
	heard     chan struct{} // closed when its log has ended
}

// serve starts a daemon in a directory of its own, and waits until it listens.
func serve(ctx context.Context, program, dir string) (_ *server, err error) {
	state := filepath.Join(dir, "daemon")
	env := append(os.Environ(), "AETHER_STATE_DIR="+filepath.Join(dir, "state"))
	s := &server{log: &bytes.Buffer{}, heard: make(chan struct{})}
	s.cmd = exec.Command(program, "serve", "--state", state, "--listen", "127.0.0.1:0", "--driver", "cell")
	s.cmd.Env = env
	log, err := s.cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.stop())
		}
	}()
	socket, address, err := s.listening(log)
	if err != nil {
		return nil, err
	}
	s.socket, s.address = socket, address
	create := exec.CommandContext(ctx, program, "key", "create", "--operator", "--state", state)
	create.Env = env
	key, err := create.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", create, err)
	}
	if s.unix, err = rest.NewClient(rest.ClientOptions{URL: "unix://" + socket}); err != nil {
		return nil, err
	}
	s.key = strings.TrimSpace(string(key))
	s.tcp, err = rest.NewClient(rest.ClientOptions{URL: "http://" + address, Key: s.key})
	return s, err
}

// listening reads from the daemon's log where it listens, and keeps the rest.
func (s *server) listening(log io.Reader) (socket, address string, err error) {
	lines := bufio.NewScanner(log)
	for address == "" && lines.Scan() {
		var line struct{ Msg, Address string }
		if json.Unmarshal(lines.Bytes(), &line) != nil || line.Msg != "listening" {
			fmt.Fprintln(s.log, lines.Text())
		} else if filepath.IsAbs(line.Address) {
			socket = line.Address
		} else {
			address = line.Address
		}
	}
	go func() {
		defer close(s.heard)
		for lines.Scan() {
			fmt.Fprintln(s.log, lines.Text())
		}
	}()
	if address == "" {
		<-s.heard
		return "", "", fmt.Errorf("the daemon does not listen: %s", s.log)
	}
	return socket, address, nil
}

func (s *server) stop() error {
	for _, c := range []*rest.Client{s.unix, s.tcp} {
		if c != nil {
			c.Close()
		}
	}
	err := s.cmd.Process.Signal(syscall.SIGTERM)
	<-s.heard
	if ended := s.cmd.Wait(); ended != nil {
		err = errors.Join(err, fmt.Errorf("the daemon: %w: %s", ended, s.log))
	}
	return err
}

// memory is how much of it the daemon has for itself, in KiB.
func (s *server) memory() (sum int64, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", s.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) < 2 || fields[0] != "Private_Dirty:" && fields[0] != "Private_Clean:" {
			continue
		}
		n, err := strconv.ParseInt(fields[1], 10, 64)
		if err != nil {
			return 0, err
		}
		sum += n
	}
	return sum, nil
}
