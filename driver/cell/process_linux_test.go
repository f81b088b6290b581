package cell_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"aether/guest"
	"aether/sandbox"
)

func TestHowCommandsEnd(t *testing.T) {
	instance := newCell(t, sandbox.Spec{})
	c := client(t, instance)
	for text, want := range map[string]guest.Status{
		"exit 0": {}, "exit 3": {Code: 3}, "exit 255": {Code: 255},
		"kill -TERM $$": {Code: -1, Signal: syscall.SIGTERM}, "kill -KILL $$": {Code: -1, Signal: syscall.SIGKILL},
	} {
		got, err := try(t.Context(), c, shell(text))
		if err != nil || got.Status != want {
			t.Errorf("%s: %+v, %v, want %+v", text, got.Status, err, want)
		}
	}
}

func TestCommandsThatCannotStart(t *testing.T) {
	instance := newCell(t, sandbox.Spec{})
	sh(t, instance, "cd /tmp; echo text > plain; printf '#!/no/such' > script; printf 'garbage' > garbage; chmod +x script garbage; mkdir dir")
	c := client(t, instance)
	var before, failed int
	for round := range 5 {
		if round == 1 { // there is a connection now
			before, failed = goroutinesAndDescriptors(t), 0
		}
		for cmd, want := range map[[2]string]sandbox.Class{
			{"/tmp/missing"}: sandbox.NotFound, {"no-such-program"}: sandbox.NotFound, {"/tmp/script"}: sandbox.NotFound,
			{"/tmp/plain"}: sandbox.Denied, {"/tmp/garbage"}: sandbox.Denied, {"/tmp/dir"}: sandbox.Denied,
			{"true", "/tmp/missing"}: sandbox.Invalid, {"true", "/tmp/plain"}: sandbox.Invalid, {"no-such-program", "/tmp/missing"}: sandbox.Invalid,
		} {
			_, err := try(t.Context(), c, guest.Cmd{Path: cmd[0], Dir: cmd[1]})
			if err == nil || sandbox.ClassOf(err) != want {
				t.Errorf("%q: %v, want %v", cmd, err, want)
			}
			failed++
		}
	}
	sh(t, instance, "true")
	// Each that left something would have left two of both.
	for end := time.Now().Add(10 * time.Second); goroutinesAndDescriptors(t) > before+failed; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d commands that did not start left %d goroutines and descriptors", failed, goroutinesAndDescriptors(t)-before)
		}
	}
}

// goroutinesAndDescriptors counts those that there are before any garbage is collected.
func goroutinesAndDescriptors(t *testing.T) int {
	t.Helper()
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(open) + runtime.NumGoroutine()
}

func TestBytesSurvive(t *testing.T) {
	instance := newCell(t, sandbox.Spec{})
	sent := make([]byte, 8<<20)
	if _, err := rand.Read(sent); err != nil {
		t.Fatal(err)
	}
	got, err := try(t.Context(), client(t, instance), guest.Cmd{Path: "cat", Stdin: bytes.NewReader(sent)})
	if err != nil || got.stdout != string(sent) {
		t.Errorf("%d bytes came back as %d others (%v)", len(sent), len(got.stdout), err)
	}
}

func TestTerminal(t *testing.T) {
	instance := newCell(t, sandbox.Spec{})
	cmd := shell("tty; stty size; read line; echo got $line")
	cmd.Terminal, cmd.Stdin = &guest.Size{Cols: 120, Rows: 40}, strings.NewReader("words\n")
	got, err := try(t.Context(), client(t, instance), cmd)
	if err != nil || got.Code != 0 {
		t.Fatalf("%+v, %v", got, err)
	}
	for _, want := range []string{"/dev/pts/", "40 120", "got words"} {
		if !strings.Contains(got.stdout, want) {
			t.Errorf("%q is not in %q", want, got.stdout)
		}
	}
}

func TestTimeoutEndsTheWholeTree(t *testing.T) {
	instance := newCell(t, sandbox.Spec{})
	keep := start(t, instance, "exec sleep 2000")
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	_, err := try(ctx, client(t, instance), shell("setsid sh -c 'trap \"\" TERM; sleep 1000 & wait' & sleep 1000"))
	wantClass(t, err, sandbox.Timeout, "")
	if !eventually(5*time.Second, func() bool { return len(sleepers(t, "1000")) == 0 }) {
		t.Errorf("%q outlive their time", sleepers(t, "1000"))
	}
	// Its shell may not have become the other program yet.
	if !eventually(5*time.Second, func() bool { return len(sleepers(t, "2000")) == 1 }) {
		t.Error("a timeout ended another command")
	}
	if err := keep.Signal(t.Context(), syscall.SIGTERM); err != nil {
		t.Error(err)
	}
}

// sleepers are the processes below this program that sleep for so long.
func sleepers(t *testing.T, seconds string) (found []string) {
	t.Helper()
	for _, p := range descendants(t, os.Getpid()) {
		text, err := os.ReadFile("/proc/" + strconv.Itoa(p.PID) + "/cmdline")
		if err == nil && string(text) == "sleep\x00"+seconds+"\x00" {
			found = append(found, describe([]peer{p})...)
		}
	}
	return found
}

func TestDroppedClientKillsNothing(t *testing.T) {
	instance := newCell(t, sandbox.Spec{})
	ctx, cancel := context.WithCancel(t.Context())
	c := client(t, instance)
	running, err := c.Start(ctx, shell("exec sleep 2000"))
	if err == nil {
		_, err = c.Start(ctx, shell("exec sleep 1000"))
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := running.Close(); err != nil {
		t.Error(err)
	}
	cancel()
	c.Close()
	list, err := client(t, instance).Processes(t.Context())
	if err != nil || len(list) == 0 {
		t.Errorf("%v run, %v", list, err)
	}
	// The shell may not have become the other program yet.
	if !eventually(5*time.Second, func() bool { return len(sleepers(t, "1000")) == 1 }) {
		t.Error("the command ended with its client")
	}
}
