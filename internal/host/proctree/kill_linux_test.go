package proctree

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
	"testing"
)

// TestKillGroup kills a shell and the program that it has started.
func TestKillGroup(t *testing.T) {
	cmd := exec.Command("sh", "-c", "sleep 100 & echo started; wait")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 8)); err != nil {
		t.Fatal(err)
	}
	if err := KillGroup(cmd.Process.Pid); err != nil {
		t.Fatal(err)
	}
	// The program inside holds the pipe open as long as it lives.
	if n, err := out.Read(make([]byte, 8)); n != 0 || err == nil {
		t.Errorf("%d bytes, %v", n, err)
	}
	if !Exists(cmd.Process.Pid) {
		t.Error("a process that nobody has waited for is gone")
	}
	if err := cmd.Wait(); err == nil {
		t.Error("the shell ended well")
	}
	if Exists(cmd.Process.Pid) {
		t.Error("a process that was waited for is there")
	}
}

func TestKillWhatHasEnded(t *testing.T) {
	cmd := exec.Command("true")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	for name, kill := range map[string]func(int) error{"process": Kill, "group": KillGroup} {
		if err := kill(cmd.Process.Pid); !errors.Is(err, os.ErrProcessDone) {
			t.Errorf("killing a %s that has ended: %v", name, err)
		}
	}
}
