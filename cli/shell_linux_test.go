package cli

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"

	"aether/internal/host/pty"
)

// keyboard is a terminal with the program on it.
type keyboard struct {
	t      *testing.T
	cmd    *exec.Cmd
	master *os.File
	over   chan struct{} // closed when all was seen

	mu    sync.Mutex
	shown bytes.Buffer
}

// onKeyboard starts the program on a terminal of its own.
func onKeyboard(t *testing.T, args ...string) *keyboard {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Skipf("this host has no terminals: %v", err)
	}
	t.Cleanup(func() { master.Close() })
	slave, err := pty.Open(master)
	check(t, err)
	check(t, pty.SetSize(master, 91, 31))
	k := &keyboard{t: t, cmd: program(args...), master: master, over: make(chan struct{})}
	k.cmd.Stdin, k.cmd.Stdout, k.cmd.Stderr = slave, slave, slave
	k.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Pdeathsig: syscall.SIGKILL}
	check(t, k.cmd.Start())
	check(t, slave.Close())
	go func() {
		defer close(k.over)
		_, _ = io.Copy(k, master) // which ends with an error when the program does
	}()
	return k
}

func (k *keyboard) Write(p []byte) (int, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.shown.Write(p)
}

func (k *keyboard) screen() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.shown.String()
}

func (k *keyboard) press(keys string) {
	k.t.Helper()
	_, err := io.WriteString(k.master, keys)
	check(k.t, err)
}

func (k *keyboard) see(what string) {
	k.t.Helper()
	defer func() {
		if k.t.Failed() {
			k.t.Logf("the terminal shows %q", k.screen())
		}
	}()
	eventually(k.t, what, func() bool { return strings.Contains(k.screen(), what) })
}

func (k *keyboard) status() int {
	k.t.Helper()
	_ = k.cmd.Wait()
	<-k.over
	return k.cmd.ProcessState.ExitCode()
}

var attachLine = regexp.MustCompile(`aether shell --attach (\d+) (\w+)`)

// TestShell: a terminal of our size, which follows ours, and which is left by keys and by
// a lost connection and come back to.
func TestShell(t *testing.T) {
	newHome(t)
	id := create(t)
	k := onKeyboard(t, "shell", "-e", "PS1=> ", id, "--", "sh", "-i")
	k.press("stty size; test -t 0 && echo on a term''inal; mine=kept\r")
	k.see("31 91")
	k.see("on a terminal")
	check(t, pty.SetSize(k.master, 77, 17))
	eventually(t, "the new size", func() bool {
		k.press("stty size\r")
		return strings.Contains(k.screen(), "17 77")
	})
	k.press("echo a\x1db\x1d\x1d")
	if status := k.status(); status != 0 {
		t.Errorf("left with %d", status)
	}
	found := attachLine.FindStringSubmatch(k.screen())
	if found == nil || found[2] != id {
		t.Fatalf("the terminal shows %q", k.screen())
	}

	k = onKeyboard(t, "shell", "--attach", found[1], id)
	k.press("\x15echo it has $mine; stty size\r")
	k.see("it has kept")
	k.see("31 91")
	check(t, k.cmd.Process.Kill()) // and the connection is lost
	k.status()

	k = onKeyboard(t, "shell", "--attach", found[1], id)
	k.press("echo again $mine\r")
	k.see("again kept")
	check(t, k.cmd.Process.Signal(syscall.SIGHUP)) // as when a window is closed
	if status := k.status(); status != 0 || !attachLine.MatchString(k.screen()) {
		t.Errorf("left with %d: %q", status, k.screen())
	}

	k = onKeyboard(t, "shell", "--attach", found[1], id)
	k.press("echo still $mine; exit 5\r")
	k.see("still kept")
	if status := k.status(); status != 5 {
		t.Errorf("ended with %d: %q", status, k.screen())
	}
	got := run(t, nil, "shell", "--attach", "1", id)
	if got.status != 2 || !strings.Contains(got.stderr, "standard input is no terminal") {
		t.Errorf("%+v", got)
	}
	k = onKeyboard(t, "shell", "--attach", "4000", id)
	if status := k.status(); status != 125 || !strings.Contains(k.screen(), "see aether logs") {
		t.Errorf("ended with %d: %q", status, k.screen())
	}
}

// TestShellOfTheImage: without a command, and a paused or unknown sandbox says so.
func TestShellOfTheImage(t *testing.T) {
	newHome(t)
	id := create(t)
	k := onKeyboard(t, "shell", id)
	k.press("echo $TERM $((6*7)); exit\r")
	k.see("42")
	if status := k.status(); status != 0 {
		t.Errorf("ended with %d: %q", status, k.screen())
	}
	k = onKeyboard(t, "shell", "nosuch")
	if status := k.status(); status != 125 || !strings.Contains(k.screen(), "there is no sandbox") {
		t.Errorf("ended with %d: %q", status, k.screen())
	}
}

// TestDetachKeys: two in a row leave, and everything else is passed on as it is typed.
func TestDetachKeys(t *testing.T) {
	for _, c := range []struct {
		typed []string
		want  string
		left  bool
	}{
		{[]string{"abc"}, "abc", false},
		{[]string{"a\x1db", "\x1d", "c"}, "a\x1db\x1dc", false},
		{[]string{"a\x1d\x1db"}, "a", true},
		{[]string{"a\x1d", "\x1d"}, "a", true},
		{[]string{"\x1d"}, "", false},
	} {
		var readers []io.Reader
		for _, text := range c.typed {
			readers = append(readers, strings.NewReader(text))
		}
		left := false
		got, _ := io.ReadAll(&detacher{from: io.MultiReader(readers...), detach: func() { left = true }})
		if string(got) != c.want || left != c.left {
			t.Errorf("of %q are passed on %q, left: %v", c.typed, got, left)
		}
	}
}
