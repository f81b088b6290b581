package lab

import (
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"
)

func TestProcesses(t *testing.T) {
	before, err := ReadProcesses()
	if err != nil {
		t.Fatal(err)
	}
	child := exec.Command("sh", "-c", "sleep 60 & wait")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { child.Process.Kill(); child.Wait() }()
	var ours Processes
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		all, err := ReadProcesses()
		if err != nil {
			t.Fatal(err)
		}
		if ours, err = all.Of(nil, before); err != nil {
			t.Fatal(err)
		}
		if len(ours) == 2 {
			break
		}
	}
	defer func() { // what the shell started
		for pid := range ours {
			if p, err := os.FindProcess(pid); err == nil && pid != child.Process.Pid {
				p.Kill()
			}
		}
	}()
	if len(ours) != 2 || ours[child.Process.Pid].Parent != os.Getpid() {
		t.Fatalf("%v", ours)
	}
	if pss, err := ours.PSS(); err != nil || pss <= 0 {
		t.Errorf("%d KiB, %v", pss, err)
	}
	if private, err := ours.Private(); err != nil || private <= 0 {
		t.Errorf("%d KiB, %v", private, err)
	}
	self, err := readProcess(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if pss, err := (Processes{child.Process.Pid: self}).PSS(); err != nil || pss != 0 {
		t.Errorf("what shares this program's memory is counted: %d, %v", pss, err)
	}
	if pss, err := (Processes{1 << 30: {}}).PSS(); err != nil || pss != 0 {
		t.Errorf("one that has ended holds %d, %v", pss, err)
	}
}

// TestProcessesOfSandboxes: what a daemon has started is told by the id that it has in its
// environment, and what names none is left out.
func TestProcessesOfSandboxes(t *testing.T) {
	before, err := ReadProcesses()
	if err != nil {
		t.Fatal(err)
	}
	// They outlive the shell, so that they descend from nobody here.
	said, err := exec.Command("sh", "-c", "HOSTNAME=lab-id-one sleep 60 >/dev/null 2>&1 & echo $!; sleep 60 >/dev/null 2>&1 & echo $!").Output()
	if err != nil {
		t.Fatal(err)
	}
	var with, without int
	if _, err := fmt.Sscan(string(said), &with, &without); err != nil {
		t.Fatal(err)
	}
	for _, pid := range []int{with, without} {
		p, err := os.FindProcess(pid)
		if err != nil {
			t.Fatal(err)
		}
		defer p.Kill()
	}
	var ours Processes
	// The shell may not have become the other program yet.
	for end := time.Now().Add(time.Minute); time.Now().Before(end) && len(ours) == 0; {
		all, err := ReadProcesses()
		if err != nil {
			t.Fatal(err)
		}
		if ours, err = all.Of([]string{"lab-id-one"}, before); err != nil {
			t.Fatal(err)
		}
	}
	if _, ok := ours[with]; !ok || len(ours) != 1 {
		t.Errorf("want %d alone and not %d: %v", with, without, ours)
	}
}

func TestParseProcess(t *testing.T) {
	p, err := parseProcess("7 (a) b) (c) S 3 1 1 0 -1 4194560 1 2 3 4 50 60 7 8 20 0 1 0 170 1000 200 5 6 7 8 9\n")
	if err != nil || p.Parent != 3 || p.Began != 170 || p.CPU != 1100*time.Millisecond || p.Stack != 8 {
		t.Errorf("%+v, %v", p, err)
	}
	for _, bad := range []string{"", "1 (a) S", "1 (a) S x 1 1 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 170 1000 200"} {
		if _, err := parseProcess(bad); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}
