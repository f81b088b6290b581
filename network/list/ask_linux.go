package list

import (
	"os/exec"
	"syscall"

	"aether/internal/host/proctree"
)

// endTogether has a tool end with everything that it has started.
func endTogether(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return proctree.KillGroup(cmd.Process.Pid) }
}
