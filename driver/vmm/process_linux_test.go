package vmm

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"aether/internal/host/cgroup"
	"aether/internal/host/proctree"
	"aether/sandbox"
)

// shellProcess starts a script as a monitor is started.
func shellProcess(t *testing.T, script string, user bool) (*process, *home) {
	t.Helper()
	l := invocation{argv: []string{"/bin/sh", "-c", script}, attach: cgroup.Attach{Into: -1}, alone: mayUnshare()}
	if user {
		needRoot(t)
		l.user = newUser()
		l.user.Groups = []uint32{sharing}
	}
	h := testHome(t, l.user)
	l.dir = within(h.root, "")
	p, err := l.start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.kill(); err != nil {
			t.Error(err)
		}
		<-p.ended
	})
	return p, h
}

// A monitor has its directory, a user of its own, no network and nothing else.
func TestMonitorIsConfined(t *testing.T) {
	p, h := shellProcess(t, `echo file > made; id -u; id -G; pwd -P; ls /sys/class/net /proc/self/net/dev >/dev/null; grep -c : /proc/net/dev; env`, true)
	<-p.ended
	got := string(p.console.text)
	for _, want := range []string{fmt.Sprint(h.uid()), fmt.Sprint(sharing), h.path, "\n1\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in %q (%s)", want, got, p.messages)
		}
	}
	if os.Getenv("HOME") != "" && strings.Contains(got, "HOME=") {
		t.Errorf("it knows our environment: %q", got)
	}
	wantContent(t, h.path+"/made", "file\n")
}

func TestKernelThatHalts(t *testing.T) {
	p, _ := shellProcess(t, `echo '[    1.0] reboot: System halted'; exec sleep 1000`, false)
	select {
	case <-p.over:
	case <-time.After(patience):
		t.Fatal("nobody noticed")
	}
	select {
	case <-p.ended:
		t.Error("it has ended by itself")
	default:
	}
}

func TestEnterGroups(t *testing.T) {
	var files []*os.File
	for range 2 {
		file, err := os.CreateTemp(t.TempDir(), "group")
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		files = append(files, file)
	}
	l := invocation{argv: []string{"/bin/sh", "-c", "ls -l /proc/self/fd; echo done"}, dir: "/", attach: cgroup.Attach{Into: -1}}
	for _, file := range files {
		l.attach.Files = append(l.attach.Files, int(file.Fd()))
	}
	p, err := l.start()
	if err != nil {
		t.Fatal(err)
	}
	<-p.ended
	if got := string(p.console.text); !strings.HasSuffix(got, "done\n") || strings.Contains(got, "/group") {
		t.Errorf("it keeps the way into its groups: %s (%s)", got, p.messages)
	}
	for _, file := range files {
		wantContent(t, file.Name(), "0\n")
	}
}

func TestTailIsHarmless(t *testing.T) {
	out := newConsole()
	fmt.Fprint(out, strings.Repeat("old\n", sandbox.MaxConsole))
	fmt.Fprint(out, "\x1b[2Jpanic: \x07no\r\n\r\n\x00init\n")
	if got, want := out.String(), "old | old | old | old | [2Jpanic: no | init"; got != want {
		t.Errorf("got %q", got)
	}
	fmt.Fprint(out, "[1.0] Kernel panic - not syncing\nregisters\n")
	if got := out.String(); got != "[1.0] Kernel panic - not syncing" {
		t.Errorf("got %q", got)
	}
	if len(out.text) > sandbox.MaxConsole {
		t.Errorf("%d bytes are kept", len(out.text))
	}
}

// What a monitor leaves its output to does not keep its end from being noticed.
func TestOutputThatOutlivesItsMonitor(t *testing.T) {
	p, _ := shellProcess(t, "sleep 1000 & echo $!; exit 1", false)
	select {
	case <-p.ended:
	case <-time.After(patience):
		t.Error("its end is not noticed")
	}
	said, _ := p.console.end()
	pid, err := strconv.Atoi(strings.TrimSpace(string(said)))
	if err == nil {
		err = proctree.Kill(pid)
	}
	if err != nil {
		t.Error(err)
	}
}
