package command

import (
	"context"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"aether/driver/guestagent"
	"aether/internal/bounded"
	"aether/internal/host/proctree"
	"aether/internal/host/spawn"
)

// lastWords is how long what a program leaves behind may hold its output open. It is also
// how long this program may take to read that, once the other has ended: a busy host has it
// wait.
const lastWords = time.Second

// maxVersion bounds what is looked at of what a program says of its version.
const maxVersion = 16 << 10

// FirstLine runs a program that tells its version and gives the first line. With
// the context it ends, and all that it has started.
func FirstLine(ctx context.Context, path string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return proctree.KillGroup(cmd.Process.Pid) }
	cmd.WaitDelay = lastWords
	text := &bounded.Output{What: "what " + path + " says of its version", Max: maxVersion}
	cmd.Stdout = text
	err := run(cmd)
	line, _, _ := strings.Cut(guestagent.Printable(text.String()), "\n")
	return line, err
}

// run runs a command that gets a parent-death signal.
func run(cmd *exec.Cmd) error {
	thread, err := spawn.Lasting()
	if err != nil {
		return err
	}
	if err := thread.Do(cmd.Start); err != nil {
		return err
	}
	return cmd.Wait()
}
