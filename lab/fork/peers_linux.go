package fork

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"syscall"

	"aether/lab"
	"aether/lab/conversation"
)

// program is a program of the host that is spoken to line by line.
type program struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

// start starts a program, which ends with its input and so with this one. (A
// signal at the death of its parent would come with that of the thread that
// started it.)
func start(name string, args ...string) (*program, error) {
	cmd := exec.Command(name, args...)
	cmd.Env = []string{"PATH=" + searchPath}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	return &program{cmd, in, bufio.NewReader(out)}, cmd.Start()
}

func (p *program) ask(ctx context.Context) error {
	return conversation.Within(ctx, func() { p.cmd.Process.Kill() }, func() error { return exchange(p.in, p.out) })
}

// forkWaiting has a program of waitingProgram make a child that waits.
func (p *program) forkWaiting(ctx context.Context) error {
	return conversation.Within(ctx, func() { p.cmd.Process.Kill() }, func() error {
		if _, err := io.WriteString(p.in, "f\n"); err != nil {
			return err
		}
		line, err := p.out.ReadString('\n')
		if err == nil && line != waiting+"\n" {
			err = fmt.Errorf("the child says %q", line)
		}
		return err
	})
}

// end closes the program's input, upon which it ends.
func (p *program) end() error {
	if err := errors.Join(p.in.Close(), p.cmd.Wait()); err != nil {
		return fmt.Errorf("%s: %w", p.cmd.Path, err)
	}
	return nil
}

// bwrapTurn starts the program afresh in bubblewrap, with the host's system.
func (b *bench) bwrapTurn(ctx context.Context, command []string) lab.Contender {
	path, err := lookPath("bwrap")
	if err != nil {
		return lab.Skip(rowBwrap, err)
	}
	args := append([]string{"--unshare-all", "--new-session", "--cap-drop", "ALL", "--ro-bind", "/", "/",
		"--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"}, command...)
	take := func(ctx context.Context) (lab.Sample, error) {
		w := lab.StartWatch()
		p, err := start(path, args...)
		if err != nil {
			return lab.Sample{}, err
		}
		err = p.ask(ctx)
		w.Lap("start and reply")
		return w.Done(), errors.Join(err, p.end())
	}
	return b.rounds().Try(ctx, lab.Contender{Name: rowBwrap, Take: take})
}

// zygoteTurn is what a plain fork of a python costs that nothing confines: the
// floor under every fork.
func (b *bench) zygoteTurn(ctx context.Context, python string) lab.Contender {
	p, err := start(python, "-c", zygoteProgram)
	if err != nil {
		return lab.Skip(rowZygote, err)
	}
	b.undo = append(b.undo, p.end)
	return lab.Contender{Name: rowZygote, Take: func(ctx context.Context) (lab.Sample, error) {
		w := lab.StartWatch()
		err := p.ask(ctx)
		w.Lap("fork and reply")
		return w.Done(), err
	}}
}
