package cgroup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The test program plays the processes inside a group when this is set.
const roleVariable = "AETHER_CGROUP_TEST_ROLE"

var roles = map[string]func(args []string) error{
	"hog": hog, "bomb": bomb, "burn": burn, "spin": spin, "daemons": daemons, "own": own, "aside": aside, "sleep": sleep, "move": move, "detect": say, "read": readAll, "write": writeAll,
}

// patience is how long something may take on a machine whose processors others have.
const patience = 2 * time.Minute

// eventually waits for what the kernel, or another process, does in its own time.
func eventually(holds func() bool) bool {
	for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		if holds() {
			return true
		}
		if time.Now().After(end) {
			return false
		}
	}
}

func TestMain(m *testing.M) {
	role, ok := roles[os.Getenv(roleVariable)]
	if !ok {
		os.Exit(m.Run())
	}
	if err := role(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// hog touches so many megabytes.
func hog(args []string) error {
	n, err := strconv.Atoi(args[0])
	var kept [][]byte
	for range n {
		block := make([]byte, 1<<20)
		for i := 0; i < len(block); i += 4096 {
			block[i] = 1
		}
		kept = append(kept, block)
	}
	fmt.Println("touched", len(kept))
	return err
}

// bomb starts sleeping processes until that fails, and says how many it got.
func bomb([]string) error {
	for n := range 500 {
		cmd := exec.Command("/bin/sleep", "30")
		if err := cmd.Start(); err != nil {
			fmt.Println("stopped at", n)
			return nil
		}
	}
	return fmt.Errorf("500 processes were allowed")
}

// burn uses all the processor time that it gets for a second.
func burn([]string) error {
	for end := time.Now().Add(time.Second); time.Now().Before(end); {
	}
	return nil
}

// spin uses all the processor time that it gets, until it is killed.
func spin([]string) error {
	for end := time.Now().Add(time.Hour); time.Now().Before(end); {
	}
	return nil
}

// daemons leaves processes behind that have sessions of their own and ignore
// polite signals, then waits.
func daemons([]string) error {
	for range 5 {
		cmd := exec.Command("/bin/sh", "-c", "trap '' TERM HUP; (sleep 60 & sleep 60) & sleep 60")
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if err := cmd.Start(); err != nil {
			return err
		}
	}
	fmt.Println("ready")
	return sleep(nil)
}

// aside steps from one group into another, and says who is in either then.
func aside(args []string) error {
	if err := stepAside(node{unix.AT_FDCWD, args[0]}, node{unix.AT_FDCWD, args[1]}); err != nil {
		return err
	}
	left, err1 := os.ReadFile(path.Join(args[0], "cgroup.procs"))
	moved, err2 := os.ReadFile(path.Join(args[1], "cgroup.procs"))
	fmt.Printf("process %d of %s and %s\n", os.Getpid(), strings.Fields(string(left)), strings.Fields(string(moved)))
	return errors.Join(err1, err2)
}

func sleep([]string) error {
	time.Sleep(time.Minute)
	return nil
}

// own makes groups with a process inside, as a program that is then killed.
func own(args []string) error {
	signal.Ignore(syscall.SIGTERM)
	h, err := Detect()
	if err != nil {
		return err
	}
	o, err := h.Own(args[0])
	if err != nil {
		return err
	}
	g, err := o.Create("left")
	if err != nil {
		return err
	}
	if err := g.Set(Limits{Pids: 100}); err != nil { // a tree of its own, on some hosts
		return err
	}
	cmd, err := command(g, "/bin/sleep", "60")
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	fmt.Println(cmd.Process.Pid, strings.Join(directories(o), " "))
	return sleep(nil)
}

func directories(o *Owner) []string {
	var dirs []string
	for _, t := range o.host.trees {
		dirs = append(dirs, t.base+"/"+o.name)
	}
	return dirs
}

// command enters the group as a spawner does: clone3 into version 2, and a "0"
// written by the child itself to each file.
func command(g *Group, name string, args ...string) (*exec.Cmd, error) {
	a, err := g.Attach(true)
	if err != nil {
		return nil, err
	}
	enter := `for fd in $FDS; do echo 0 >&$fd || exit 99; done; exec "$@"`
	cmd := exec.Command("/bin/sh", append([]string{"-c", enter, "sh", name}, args...)...)
	var numbers []string
	for i, fd := range a.Files {
		dup, err := syscall.Dup(fd)
		if err != nil {
			return nil, err
		}
		cmd.ExtraFiles = append(cmd.ExtraFiles, os.NewFile(uintptr(dup), "tasks"))
		numbers = append(numbers, strconv.Itoa(3+i))
	}
	cmd.Env = append(os.Environ(), "FDS="+strings.Join(numbers, " "))
	cmd.Stderr = os.Stderr
	if a.Into >= 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: a.Into}
	}
	return cmd, nil
}

// play is a command in which this program takes a role.
func play(t *testing.T, g *Group, role string, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd, err := command(g, self, args...)
	if err != nil {
		t.Fatal(err)
	}
	// The race detector would make each role linger for a second.
	cmd.Env = append(cmd.Env, roleVariable+"="+role, "GORACE=atexit_sleep_ms=0")
	return cmd
}

// owner makes the groups of a program for one test and removes them after it.
func owner(t testing.TB) *Owner {
	t.Helper()
	h, err := Detect()
	if err != nil {
		t.Fatal(err)
	}
	return ownerOn(t, h)
}

// onEachLayout runs a test with all trees of this host and, where they do not
// hold the limits, without the one of version 2.
func onEachLayout(t *testing.T, test func(*testing.T, *Owner)) {
	whole, err := Detect()
	if err != nil {
		t.Fatal(err)
	}
	t.Run(string(whole.Layout), func(t *testing.T) { test(t, ownerOn(t, whole)) })
	if whole.Layout == Hybrid {
		t.Run(string(V1), func(t *testing.T) { test(t, ownerOn(t, legacyOnly(t))) })
	}
}

func legacyOnly(t *testing.T) *Hierarchy {
	t.Helper()
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	membership, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	return detect(strings.ReplaceAll(string(mounts), " - cgroup2 ", " - hidden "), string(membership))
}

func ownerOn(t testing.TB, h *Hierarchy) *Owner {
	t.Helper()
	if h.Holds()&usual != usual {
		t.Skipf("this host gives us no limits: %v", h.Enforces(Limits{Memory: 1 << 30, CPUs: 1, Pids: 1}))
	}
	o, err := h.Own(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := o.Close(context.Background()); err != nil {
			t.Error(err)
		}
		for _, dir := range directories(o) {
			if _, err := os.Stat(dir); !os.IsNotExist(err) {
				t.Errorf("%s is left: %v", dir, err)
			}
		}
	})
	return o
}

func group(t testing.TB, o *Owner, l Limits) *Group {
	t.Helper()
	g, err := o.Create("g-" + strconv.FormatInt(time.Now().UnixNano(), 36))
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Set(l); err != nil {
		t.Fatal(err)
	}
	return g
}
