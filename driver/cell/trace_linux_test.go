package cell_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// call is a system call that has returned, as strace writes it.
type call struct{ name, text string }

// schedulerCalls are made by Go's scheduler, preemption, poller and memory, as often
// as time and chance have it, and by nobody else here; and restart_syscall by whoever
// is interrupted when it is traced.
var schedulerCalls = []string{"futex", "epoll_pwait", "sched_yield", "nanosleep", "madvise", "tgkill", "getpid", "rt_sigreturn", "restart_syscall"}

// ofTheRuntime says that how often the call is made is chance: those of the scheduler,
// what wakes its poller, which is the number one of eight bytes, what was tried too
// early and is tried again, and the memory of the race detector.
func (c call) ofTheRuntime() bool {
	return raceEnabled && c.name == "mmap" || slices.Contains(schedulerCalls, c.name) || c.mentions(`"\1\0\0\0\0\0\0\0"`) || c.mentions(" = -1 EAGAIN ")
}

func (c call) mentions(text string) bool { return strings.Contains(c.text, text) }

// traced gives all system calls of a program, and of those that it starts, while do
// runs, in the order of their ends.
func traced(t *testing.T, pid int, do func()) []call {
	t.Helper()
	strace, err := exec.LookPath("strace")
	if err != nil {
		t.Skip("this host has no strace")
	}
	log, said := filepath.Join(t.TempDir(), "calls"), &strings.Builder{}
	cmd := exec.Command(strace, "-f", "-qq", "-o", log, "-p", strconv.Itoa(pid))
	cmd.Stderr = said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		cmd.Process.Kill() // what it traces goes on
		cmd.Wait()
	}()
	if !eventually(20*time.Second, func() bool { return isTraced(t, pid) }) {
		t.Fatalf("strace does not trace: %s", said)
	}
	do()
	if err := cmd.Process.Signal(os.Interrupt); err != nil { // it writes what it has, and lets go
		t.Fatalf("%v: %s", err, said)
	}
	cmd.Wait()
	text, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	return readCalls(string(text))
}

// isTraced says that all threads of a program are traced.
func isTraced(t *testing.T, pid int) bool {
	t.Helper()
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	return !slices.ContainsFunc(threads, func(file string) bool {
		status, err := os.ReadFile(file)
		return err == nil && strings.Contains(string(status), "TracerPid:\t0\n")
	})
}

const unfinished = " <unfinished ...>"

var (
	callLine    = regexp.MustCompile(`^(\d+) +(\w+)\((.*)$`)
	resumedLine = regexp.MustCompile(`^(\d+) +<\.\.\. (\w+) resumed>(.*)$`)
)

// readCalls joins the two lines of a call during which another thread made one.
func readCalls(log string) (calls []call) {
	begun := map[string]string{} // by thread
	for line := range strings.Lines(log) {
		line = strings.TrimSuffix(line, "\n")
		if found := resumedLine.FindStringSubmatch(line); found != nil {
			calls = append(calls, call{found[2], begun[found[1]] + found[3]})
		} else if found := callLine.FindStringSubmatch(line); found != nil {
			if text, ok := strings.CutSuffix(found[3], unfinished); ok {
				begun[found[1]] = text
				continue
			}
			calls = append(calls, call{found[2], found[3]})
		}
	}
	return calls
}

func TestReadCalls(t *testing.T) {
	got := readCalls(`7  read(0,  <unfinished ...>
8  write(1, "a", 1) = 1
8  --- SIGCHLD {si_signo=SIGCHLD} ---
7  <... read resumed>"b", 1)         = 1
9  +++ exited with 0 +++
8  exit_group(0)      = ?
`)
	want := []call{{"write", `1, "a", 1) = 1`}, {"read", `0, "b", 1)         = 1`}, {"exit_group", "0)      = ?"}}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}
