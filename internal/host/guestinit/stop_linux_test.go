package guestinit

import (
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const insideVariable = "AETHER_STOP_TEST_INSIDE"

// TestStopOthers runs itself once more as the first process of a pid namespace, in which
// one process runs and one is stopped.
func TestStopOthers(t *testing.T) {
	if os.Getenv(insideVariable) != "" {
		stopOthersInside(t)
		return
	}
	if os.Geteuid() != 0 {
		t.Skip("only root makes pid namespaces")
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestStopOthers$", "-test.v")
	cmd.Env = append(os.Environ(), insideVariable+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS, Unshareflags: syscall.CLONE_NEWNS}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

func stopOthersInside(t *testing.T) {
	if err := unix.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		t.Fatal(err)
	}
	start := func(script string) int {
		cmd := exec.Command("sh", "-c", script)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		return cmd.Process.Pid
	}
	running, before := start("while :; do :; done"), start("kill -STOP $$")
	for deadline := time.Now().Add(time.Minute); states(before) != "T"; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("it is in %q", states(before))
		}
	}
	resume, err := StopOthers(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for range 20 { // it may have been stopped at any point
		if got := states(running); got != "T" {
			t.Fatalf("it is in %q", got)
		}
		time.Sleep(time.Millisecond)
	}
	if err := resume(); err != nil {
		t.Fatal(err)
	}
	if got := states(running); got == "T" || states(before) != "T" {
		t.Errorf("what ran is in %q, and what was stopped in %q", got, states(before))
	}
}
