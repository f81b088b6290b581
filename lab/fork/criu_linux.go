package fork

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"aether/internal/host/proctree"
	"aether/lab"
	"aether/lab/conversation"
)

// criu is a python3 that CRIU has saved, spoken to through fifos, which it opens
// again by their names.
type criu struct {
	program, dir string
	pid          int // the same in every life
	in, out      *os.File
	lines        *bufio.Reader
}

// criuTurn restores a python3 that nothing confines, by CRIU.
func (b *bench) criuTurn(ctx context.Context, command []string) lab.Contender {
	refused := func(err error) lab.Contender { return lab.Skip(rowCriu, err) }
	path, err := lookPath("criu")
	if err != nil {
		return refused(err)
	}
	if text, err := exec.CommandContext(ctx, path, "check").CombinedOutput(); err != nil {
		return refused(errors.New("criu check: " + lastLine(text, err)))
	}
	dir, err := os.MkdirTemp("", "aether-criu-")
	if err != nil {
		return refused(err)
	}
	b.undo = append(b.undo, func() error { return os.RemoveAll(dir) })
	c := &criu{program: path, dir: dir}
	if err := c.save(ctx, command); err != nil {
		return refused(err)
	}
	b.undo = append(b.undo, c.in.Close)
	return lab.Contender{Name: rowCriu, Take: c.restore}
}

// save starts the program, waits until it is primed, and has CRIU take it away.
func (c *criu) save(ctx context.Context, command []string) error {
	in, err := c.fifo("in")
	if err != nil {
		return err
	}
	out, err := c.fifo("out")
	if err != nil {
		return err
	}
	defer out.Close()
	ours, err := c.fifo("out") // a description of our own, for the other ends with the program
	if err != nil {
		return err
	}
	c.in, c.out, c.lines = in, ours, bufio.NewReader(ours)
	theirs, err := c.fifo("in")
	if err != nil {
		return err
	}
	defer theirs.Close()
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Env, cmd.Dir = []string{"PATH=" + searchPath}, "/"
	cmd.Stdin, cmd.Stdout = theirs, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	c.pid = cmd.Process.Pid
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err = conversation.Within(ctx, func() { c.out.Close() }, func() error { return readPrimed(c.lines) })
	if err == nil {
		err = c.run(ctx, "dump", "--tree", strconv.Itoa(c.pid))
	}
	if err != nil {
		err = errors.Join(err, cmd.Process.Kill())
	}
	_ = cmd.Wait() // CRIU kills what it has saved
	return err
}

// fifo makes one if it is not there and opens it so that neither end waits.
func (c *criu) fifo(name string) (*os.File, error) {
	path := filepath.Join(c.dir, name)
	if _, err := os.Lstat(path); errors.Is(err, os.ErrNotExist) {
		if err := exec.Command("mkfifo", "-m", "600", path).Run(); err != nil {
			return nil, fmt.Errorf("mkfifo: %w", err)
		}
	}
	return os.OpenFile(path, os.O_RDWR, 0)
}

func (c *criu) run(ctx context.Context, verb string, args ...string) error {
	args = append([]string{verb, "--images-dir", c.dir, "--log-file", verb + ".log"}, args...)
	if _, err := exec.CommandContext(ctx, c.program, args...).CombinedOutput(); err != nil {
		log, _ := os.ReadFile(filepath.Join(c.dir, verb+".log"))
		return fmt.Errorf("criu %s: %s", verb, lastLine(log, err))
	}
	return nil
}

func (c *criu) restore(ctx context.Context) (_ lab.Sample, err error) {
	w := lab.StartWatch()
	err = c.run(ctx, "restore", "--restore-detached")
	w.Lap("restore")
	if err != nil {
		return lab.Sample{}, err
	}
	err = conversation.Within(ctx, func() { c.out.Close() }, func() error { return exchange(c.in, c.lines) })
	w.Lap("reply")
	return w.Done(), errors.Join(err, c.end(ctx))
}

// end kills the program and waits until its number is free for the next life.
func (c *criu) end(ctx context.Context) error {
	if err := proctree.Kill(c.pid); err != nil {
		return err
	}
	for proctree.Exists(c.pid) {
		if err := ctx.Err(); err != nil {
			return err
		}
		time.Sleep(time.Millisecond)
	}
	return nil
}

func lastLine(text []byte, err error) string {
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	if last := lines[len(lines)-1]; last != "" {
		return last
	}
	return err.Error()
}
