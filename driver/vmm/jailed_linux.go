package vmm

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"
	"time"

	"aether/internal/host/jail"
	"aether/internal/host/spawn"
)

// startJailed starts a monitor that finds nothing but its descriptors.
func (l invocation) startJailed(on *spawn.Thread, p *process) error {
	exe, err := os.Open(l.argv[0])
	if err != nil {
		return err
	}
	defer exe.Close()
	null, err := os.Open(os.DevNull)
	if err != nil {
		return err
	}
	defer null.Close()
	var said sync.WaitGroup
	console, err := drain(&said, p.console)
	if err != nil {
		return err
	}
	defer console.Close()
	messages, err := drain(&said, p.messages)
	if err != nil {
		return err
	}
	defer messages.Close()
	program := jail.Program{Exe: exe, Args: l.argv, Env: append(environment[:len(environment):len(environment)], l.env...), Files: append([]*os.File{null, console, messages}, l.files...),
		ID: int(newUser().Uid), Alone: true, Into: l.attach.Into, Enter: l.attach.Files}
	var child *spawn.Process
	if err := on.Do(func() (err error) { child, err = jail.Start(program); return err }); err != nil {
		return err
	}
	p.pid = child.Pid()
	p.end = func() error {
		err := child.Signal(syscall.SIGKILL)
		if errors.Is(err, syscall.ESRCH) {
			return os.ErrProcessDone
		}
		return err
	}
	p.wait = func() error {
		status, err := child.Wait()
		said.Wait() // its end, and what it has said until then
		if err == nil && (status.Code != 0 || status.Signal != 0) {
			err = endedAs(status)
		}
		return err
	}
	return nil
}

func endedAs(s spawn.Status) error {
	if s.Signal != 0 {
		return fmt.Errorf("signal: %v", s.Signal)
	}
	return fmt.Errorf("exit status %d", s.Code)
}

// unhurried takes a breath after each piece, so that who talks without an end is heard in large
// pieces, and waits: what a guest says costs this program next to nothing.
type unhurried struct{ to io.Writer }

const breath = 2 * time.Millisecond

func (u unhurried) Write(b []byte) (int, error) {
	n, err := u.to.Write(b)
	time.Sleep(breath)
	return n, err
}

// drain gives a pipe of which a goroutine passes on what comes, until the last end of it
// that is written to is closed.
func drain(until *sync.WaitGroup, to io.Writer) (*os.File, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	until.Go(func() {
		_, _ = io.Copy(unhurried{to}, r) // the pipe ends with its process
		r.Close()
	})
	return w, nil
}
