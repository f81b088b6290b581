package daemontest

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// Process is a daemon that runs.
type Process struct{ cmd *exec.Cmd }

// killTime is how long a daemon may take to end.
const killTime = 2 * time.Minute

// Start starts a daemon, which with the calling thread gets the signal end, and
// waits until it is ready. Log is the file for what it writes.
func Start(cmd *exec.Cmd, log string, end syscall.Signal, ready func() error) (*Process, error) {
	file, err := os.Create(log)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	cmd.Stdout, cmd.Stderr = file, file
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: end}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &Process{cmd}
	if err := ready(); err != nil {
		p.End(end)
		text, _ := os.ReadFile(log)
		return nil, fmt.Errorf("%s: %w\n%s", cmd, err, text[max(0, len(text)-2000):])
	}
	return p, nil
}

// End ends a daemon by a signal. It is idempotent.
func (p *Process) End(signal syscall.Signal) {
	if p.cmd.ProcessState != nil {
		return
	}
	_ = p.cmd.Process.Signal(signal)
	killer := time.AfterFunc(killTime, func() { _ = p.cmd.Process.Kill() })
	defer killer.Stop()
	_ = p.cmd.Wait()
}
