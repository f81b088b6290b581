package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"aether/internal/host/cgroup"
	"aether/internal/host/spawn"
	"aether/lab"
)

// launcher starts the programs of the peers. It forks on threads of its own that
// stand in a mount namespace where crun and runc find a cgroup layout that they
// take; standing there costs a start nothing.
type launcher struct {
	threads []*spawn.Thread
	free    chan *spawn.Thread
	log     *os.File // what the programs say on standard error
	// input is an empty file. crun gives its standard input to the container's
	// user, which must not be the host's /dev/null.
	input *os.File
}

func newLauncher(dir string) (l *launcher, err error) {
	l = &launcher{free: make(chan *spawn.Thread, runtime.NumCPU())}
	if l.log, err = os.OpenFile(filepath.Join(dir, "peers.log"), os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600); err != nil {
		return nil, err
	}
	if l.input, err = os.OpenFile(filepath.Join(dir, "empty"), os.O_RDONLY|os.O_CREATE, 0o600); err != nil {
		return nil, errors.Join(err, l.log.Close())
	}
	setup := func() error { return nil }
	if os.Geteuid() == 0 {
		setup = cgroup.HideUnified
	}
	for range runtime.NumCPU() {
		t, err := spawn.NewThread(setup)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("make a mount namespace for the peers: %w", err), l.close())
		}
		l.threads = append(l.threads, t)
		l.free <- t
	}
	return l, nil
}

// started is a program of a peer that has been started.
type started struct {
	cmd *exec.Cmd
	out *output
	log *os.File
}

// firstByte starts a program and waits for the first byte of its output.
func (l *launcher) firstByte(name string, args ...string) (*started, lab.Sample, error) {
	out, err := newOutput()
	if err != nil {
		return nil, lab.Sample{}, err
	}
	s := &started{cmd: l.command(name, args), out: out, log: l.log}
	s.cmd.Stdout = out.write
	return s.await(l)
}

func (s *started) await(l *launcher) (*started, lab.Sample, error) {
	w := lab.StartWatch()
	if err := l.start(s.cmd); err != nil {
		return nil, lab.Sample{}, errors.Join(err, s.out.close())
	}
	err := s.out.write.Close()
	if err == nil {
		err = s.out.firstByte()
	}
	w.First("launcher and program")
	if err != nil {
		return nil, lab.Sample{}, s.failed(errors.Join(err, s.kill()))
	}
	return s, w.Sample, nil
}

// command is in a process group of its own, so that an interrupt from the
// terminal ends this program first, which then takes the sandbox down.
func (l *launcher) command(name string, args []string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.Stdin, cmd.Stderr = l.input, l.log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	return cmd
}

func (l *launcher) start(cmd *exec.Cmd) error {
	t := <-l.free
	defer func() { l.free <- t }()
	return t.Do(cmd.Start)
}

// run runs a program to its end.
func (l *launcher) run(name string, args ...string) error {
	s := &started{cmd: l.command(name, args), log: l.log}
	if err := l.start(s.cmd); err != nil {
		return err
	}
	return s.failed(s.cmd.Wait())
}

// wait waits for the end of the program and of all that may write its output.
func (s *started) wait() error {
	return s.failed(errors.Join(s.cmd.Wait(), s.out.drained()))
}

// kill ends the program and waits until nothing of it is left.
func (s *started) kill() error {
	err := s.cmd.Process.Kill()
	if errors.Is(err, os.ErrProcessDone) {
		err = nil
	}
	var exit *exec.ExitError
	if waited := s.cmd.Wait(); !errors.As(waited, &exit) {
		err = errors.Join(err, waited)
	}
	return errors.Join(err, s.out.drained())
}

// failed adds the end of what the peers said to an error.
func (s *started) failed(err error) error {
	if err == nil {
		return nil
	}
	const enough = 400
	size, seekErr := s.log.Seek(0, io.SeekEnd)
	text := make([]byte, enough)
	n, readErr := s.log.ReadAt(text, max(0, size-enough))
	if errors.Is(readErr, io.EOF) {
		readErr = nil
	}
	said := strings.TrimSpace(string(text[:n]))
	return errors.Join(fmt.Errorf("%s: %w: %s", filepath.Base(s.cmd.Path), err, said), seekErr, readErr)
}

// close ends the threads, and with them what was started and is still there.
func (l *launcher) close() error {
	for _, t := range l.threads {
		t.Close()
	}
	return errors.Join(l.log.Close(), l.input.Close())
}

// version is the first line of what a program says about itself.
func version(ctx context.Context, path string) (string, error) {
	text, err := exec.CommandContext(ctx, path, "--version").Output()
	if err != nil {
		return "", fmt.Errorf("%s --version: %w", path, err)
	}
	line, _, _ := strings.Cut(string(text), "\n")
	return strings.Join(strings.Fields(line), " "), nil
}
