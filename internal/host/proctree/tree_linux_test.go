package proctree

import (
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"
)

func TestKillFindsDaemons(t *testing.T) {
	mark := NewMark()
	bystander := exec.Command("sleep", "60")
	if err := bystander.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		bystander.Process.Kill()
		bystander.Wait()
	}()
	cmd := exec.Command("sh", "-c", "setsid sh -c 'sleep 60 & sleep 60' & echo started; wait")
	cmd.Env = mark.Add(os.Environ())
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	out.Read(make([]byte, 8))
	deadline := time.Now().Add(time.Minute)
	for found, _ := mark.processes(); len(found) < 4; found, _ = mark.processes() {
		if time.Now().After(deadline) {
			t.Fatalf("only %d processes carry the mark", len(found))
		}
		time.Sleep(time.Millisecond)
	}
	if err := mark.Kill(cmd.Process.Pid); err != nil {
		t.Fatal(err)
	}
	cmd.Wait()
	if found, err := mark.processes(); err != nil || len(found) != 0 {
		t.Errorf("%v are left, error %v", found, err)
	}
	if err := bystander.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("a process without the mark: %v", err)
	}
}
