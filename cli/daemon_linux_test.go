package cli

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"aether/internal/host/storedir"
)

// testIdle is how long daemons stay in tests that have nothing to do.
const testIdle = 300 * time.Millisecond

// newHome gives the commands of a test a state directory of their own, in which they
// start daemons of their own. At the end nothing may be left of those.
func newHome(t *testing.T) (dir string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "c") // short, for the paths of sockets
	check(t, err)
	for name, value := range map[string]string{"AETHER_STATE_DIR": dir, mainVariable: testIdle.String(), urlVariable: "", keyVariable: "", "GORACE": "atexit_sleep_ms=0"} {
		t.Setenv(name, value)
	}
	idleExit = testIdle
	t.Cleanup(func() {
		if t.Failed() {
			text, _ := os.ReadFile(daemonLogFile())
			t.Logf("the daemons said\n%s", text)
		}
		removeAll(t)
		awaitEnd(t)
		check(t, os.RemoveAll(dir))
	})
	return dir
}

// removeAll removes every sandbox, after the context of the test has ended.
func removeAll(t *testing.T) {
	t.Helper()
	var ids, stderr bytes.Buffer
	status := Main(context.Background(), []string{"list", "--quiet"}, strings.NewReader(""), &ids, &stderr, nil)
	if status == 0 && ids.Len() > 0 {
		status = Main(context.Background(), append([]string{"rm"}, strings.Fields(ids.String())...), strings.NewReader(""), &ids, &stderr, nil)
	}
	if status != 0 {
		t.Error(stderr.String())
	}
}

// awaitEnd waits until no daemon has the state directory.
func awaitEnd(t *testing.T) {
	t.Helper()
	eventually(t, "the end of the daemon", func() bool {
		lock, err := storedir.Try(filepath.Join(daemonState(), "lock"))
		return err == nil && lock.Release() == nil || errors.Is(err, os.ErrNotExist)
	})
}

// waitTime is how long what must happen is waited for, also on a host that is slow: who
// waits for it that long has found a defect.
const waitTime = 2 * time.Minute

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(waitTime); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s was waited for in vain", what)
		}
	}
}

// program is the command as a process of its own, which can be signalled.
func program(args ...string) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe", args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd
}

// create makes a sandbox and gives its id.
func create(t *testing.T, flags ...string) string {
	t.Helper()
	return strings.TrimSpace(succeed(t, append([]string{"create"}, flags...)...))
}

// TestManyClientsStartOneDaemon: those who come at once while none runs find one, and it
// ends when nothing is left in it.
func TestManyClientsStartOneDaemon(t *testing.T) {
	for _, idle := range []time.Duration{testIdle, 10 * testIdle, 100 * testIdle} {
		one := true
		t.Run(idle.String(), func(t *testing.T) { one = manyClientsStartOne(t, idle) })
		if one {
			return
		}
	}
	t.Error("there is always more than one daemon")
}

// manyClientsStartOne says whether there was one daemon: on a slow host one may end for
// having nothing to do before anybody has come to it.
func manyClientsStartOne(t *testing.T, idle time.Duration) bool {
	newHome(t)
	t.Setenv(mainVariable, idle.String())
	const clients = 6
	var all sync.WaitGroup
	outcomes := make([]outcome, clients)
	for i := range clients {
		all.Go(func() {
			var stdout, stderr bytes.Buffer
			cmd := program("create", "--metadata", fmt.Sprint("n=", i))
			cmd.Stdout, cmd.Stderr = &stdout, &stderr
			_ = cmd.Run()
			outcomes[i] = outcome{stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()}
		})
	}
	all.Wait()
	ids := map[string]bool{}
	for _, o := range outcomes {
		if o.status != 0 || o.stderr != "" {
			t.Errorf("%+v", o)
		}
		ids[o.stdout] = true
	}
	if got := strings.Fields(succeed(t, "list", "--quiet")); len(got) != clients || len(ids) != clients {
		t.Errorf("%d were made, %v", len(got), ids)
	}
	succeed(t, append([]string{"rm"}, strings.Fields(succeed(t, "list", "--quiet"))...)...)
	awaitEnd(t)
	log, err := os.ReadFile(daemonLogFile())
	check(t, err)
	if _, err := os.Lstat(daemonSocket()); err == nil {
		t.Error("a socket is left")
	}
	begun, ended := strings.Count(string(log), "listening"), strings.Count(string(log), "nothing is left to do")
	if begun != ended {
		t.Errorf("the daemons said\n%s", log)
	}
	return begun == 1
}

// TestDaemonStaysWhileItIsNeeded: by a sandbox, or by somebody connected.
func TestDaemonStaysWhileItIsNeeded(t *testing.T) {
	newHome(t)
	follow := program("events", "--follow")
	told, err := follow.StdoutPipe()
	check(t, err)
	check(t, follow.Start())
	succeed(t, "rm", create(t))
	for lines := bufio.NewScanner(told); lines.Scan() && !strings.Contains(lines.Text(), "ended"); { // so it is connected
	}
	time.Sleep(4 * idleExit)
	if _, err := os.Lstat(daemonSocket()); err != nil {
		t.Error("the daemon left somebody alone")
	}
	check(t, follow.Process.Signal(syscall.SIGTERM))
	check(t, follow.Wait())
	id := create(t)
	time.Sleep(4 * idleExit)
	if got := succeed(t, "list", "--quiet"); strings.TrimSpace(got) != id {
		t.Errorf("of %s is left %q", id, got)
	}
}

// TestDaemonThatWasKilled: the next command starts another, which says what became of the
// sandboxes.
func TestDaemonThatWasKilled(t *testing.T) {
	newHome(t)
	first := program("serve")
	check(t, first.Start())
	eventually(t, "a daemon", func() bool { _, err := os.Lstat(daemonSocket()); return err == nil })
	id := create(t)
	check(t, first.Process.Kill())
	_ = first.Wait() // which says that it was killed
	if got := succeed(t, "get", id); !strings.Contains(got, "lost: the engine that held it was killed") {
		t.Errorf("%s", got)
	}
}

// TestDaemonThatCannotBegin: the command says why.
func TestDaemonThatCannotBegin(t *testing.T) {
	dir := newHome(t)
	check(t, os.WriteFile(filepath.Join(dir, "daemon"), nil, 0o600))
	got := run(t, nil, "create")
	if got.status != 1 || got.stdout != "" {
		t.Errorf("%+v", got)
	}
	checkLine(t, got.stderr, "not a directory")
	checkLine(t, got.stderr, "see "+daemonLogFile())
	check(t, os.Remove(filepath.Join(dir, "daemon")))
}

// TestDaemonThatIsNamed is asked, and none is started in its place.
func TestDaemonThatIsNamed(t *testing.T) {
	newHome(t)
	for url, says := range map[string]string{
		"unix:///no/such/socket": "the daemon does not answer",
		"http://127.0.0.1:1":     "the daemon does not answer",
		"ftp://here":             "AETHER_URL: ",
	} {
		t.Setenv(urlVariable, url)
		got := run(t, nil, "list")
		checkLine(t, got.stderr, says)
	}
	if _, err := os.Lstat(daemonSocket()); err == nil {
		t.Error("a daemon was started")
	}
	t.Setenv(urlVariable, "http://192.0.2.1:7070")
	t.Setenv(keyVariable, "e2b_0")
	checkLine(t, run(t, nil, "list").stderr, "the key would pass the network in the clear")
	t.Setenv(urlVariable, "")
	t.Setenv(keyVariable, "")
	id := create(t)
	t.Setenv(urlVariable, "unix://"+daemonSocket())
	if got := succeed(t, "list", "--quiet"); strings.TrimSpace(got) != id {
		t.Errorf("%q", got)
	}
	t.Setenv(urlVariable, "")
}
