package drivertest

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"aether/guest"
	"aether/sandbox"
)

func (s *suite) commands() []test {
	return []test{
		{"how they end", s.howCommandsEnd}, {"that cannot start", s.thatCannotStart}, {"signals", s.signals}, {"heed signals", s.heedSignals},
		{"environment", s.environment}, {"working directory", s.workingDirectory}, {"users", s.users},
		{"timeout ends the tree", s.timeout}, {"outlive their client", s.outliveClient}, {"orphans are reaped", s.orphans},
	}
}

func (s *suite) howCommandsEnd(t *testing.T) {
	b := s.make(t, sandbox.Spec{})
	for text, want := range map[string]guest.Status{
		"exit 0": {}, "exit 3": {Code: 3}, "exit 255": {Code: 255},
		"kill -TERM $$": {Code: -1, Signal: syscall.SIGTERM}, "kill -KILL $$": {Code: -1, Signal: syscall.SIGKILL},
	} {
		got, err := exec(s.patient(t), b.Client, shell(text))
		if err != nil || got.Status != want {
			t.Errorf("%s: %+v, %v, want %+v", text, got.Status, err, want)
		}
	}
}

func (s *suite) thatCannotStart(t *testing.T) {
	b := s.make(t, sandbox.Spec{})
	b.sh(t, "cd /tmp; echo text > plain; printf '#!/no/such' > script; chmod +x script; mkdir dir")
	for path, want := range map[string][]sandbox.Class{
		"/tmp/missing": {sandbox.NotFound}, "no-such-program": {sandbox.NotFound}, "/tmp/script": {sandbox.NotFound},
		"/tmp/plain": {sandbox.Denied}, "/tmp/dir": {sandbox.Denied},
	} {
		_, err := exec(s.patient(t), b.Client, guest.Cmd{Path: path})
		t.Run(path, func(t *testing.T) { wantClass(t, err, want...) })
	}
	if _, err := exec(s.patient(t), b.Client, guest.Cmd{Path: "/bin/sh", Dir: "/no/such"}); err == nil {
		t.Error("a command started in a directory that does not exist")
	}
	b.sh(t, "true")
}

func (s *suite) signals(t *testing.T) {
	b := s.make(t, sandbox.Spec{})
	script := "trap 'echo caught; exit 7' TERM; echo ready; while :; do sleep 0.05; done"
	lines := newLines()
	cmd := shell(script)
	cmd.Stdout = lines
	running, err := b.Client.Start(s.patient(t), cmd)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan outcome, 1)
	go func() {
		status, err := running.Wait()
		if err != nil {
			t.Errorf("wait: %v", err)
		}
		ended <- outcome{Status: status}
	}()
	lines.await(t, s.Config, "ready")
	if err := running.Signal(s.patient(t), syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if got := <-ended; got.Code != 7 {
		t.Errorf("%+v: the signal was not caught", got.Status)
	}
	lines.await(t, s.Config, "caught")
	wantClass(t, running.Signal(s.patient(t), syscall.SIGTERM), sandbox.NotFound)
}

// heedSignals: what the program ignores that made the sandbox, as daemons and what nohup
// starts do, its commands do not.
func (s *suite) heedSignals(t *testing.T) {
	ignored := []os.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGPIPE}
	signal.Ignore(ignored...)
	defer signal.Reset(ignored...)
	b := s.make(t, sandbox.Spec{})
	for _, n := range ignored {
		got, err := exec(s.patient(t), b.Client, shell(fmt.Sprintf("kill -%d $$", n)))
		if want := (guest.Status{Code: -1, Signal: n.(syscall.Signal)}); err != nil || got.Status != want {
			t.Errorf("%v: %+v, %v", n, got.Status, err)
		}
	}
}

func (s *suite) environment(t *testing.T) {
	b := s.make(t, sandbox.Spec{Command: sandbox.CommandDefaults{Env: map[string]string{"GIVEN": "by spec", "OTHER": "a\nb"}}})
	cmd := shell(`printf '%s|' "$GIVEN" "$OTHER" "$OWN"; test -n "$PATH" && test -n "$HOME" && echo set`)
	cmd.Env = map[string]string{"OWN": "ünïcode", "GIVEN": "by command"}
	got, err := exec(s.patient(t), b.Client, cmd)
	if want := "by command|a\nb|ünïcode|set\n"; err != nil || got.stdout != want {
		t.Errorf("got %q, want %q (%v)", got.stdout, want, err)
	}
	if got := b.sh(t, "echo $GIVEN"); got != "by spec" {
		t.Errorf("got %q", got)
	}
}

func (s *suite) workingDirectory(t *testing.T) {
	b := s.make(t, sandbox.Spec{Command: sandbox.CommandDefaults{WorkDir: "/usr"}})
	if got := b.sh(t, "pwd"); got != "/usr" {
		t.Errorf("the default gives %q", got)
	}
	cmd := shell("pwd")
	cmd.Dir = "/tmp"
	got, err := exec(s.patient(t), b.Client, cmd)
	if err != nil || strings.TrimSpace(got.stdout) != "/tmp" {
		t.Errorf("asked for /tmp: %q, %v", got.stdout, err)
	}
}

func (s *suite) users(t *testing.T) {
	b := s.make(t, sandbox.Spec{})
	own := b.sh(t, "id -u")
	for user, want := range map[string]string{"root": "0", "4321": "4321"} {
		t.Run(user, func(t *testing.T) {
			out, err := exec(s.patient(t), b.as(t, user), shell("id -u; id -g; echo mine > /tmp/of-"+user))
			if want != own && (sandbox.ClassOf(err) == sandbox.Unavailable || sandbox.ClassOf(err) == sandbox.Unsupported) {
				t.Skipf("this host has one user for a sandbox: %v", err)
			}
			if err != nil || !strings.HasPrefix(out.stdout, want+"\n") {
				t.Fatalf("%+v, %v", out, err)
			}
			if got := b.sh(t, "stat -c %u /tmp/of-"+user); got != want {
				t.Errorf("its file belongs to %s", got)
			}
		})
	}
	_, err := exec(s.patient(t), b.as(t, "no-such-user"), shell("true"))
	wantClass(t, err, sandbox.Denied)
}

func (s *suite) timeout(t *testing.T) {
	b := s.make(t, sandbox.Spec{})
	keep := b.start(t, "exec sleep 2000")
	ctx, cancel := context.WithTimeout(t.Context(), s.within(300*time.Millisecond))
	defer cancel()
	_, err := exec(ctx, b.Client, shell("setsid sh -c 'trap \"\" TERM; sleep 1000 & wait' & sleep 1000"))
	wantClass(t, err, sandbox.Timeout)
	if !s.eventually(func() bool { return b.sleepers(t, "1000") == 0 }) {
		t.Errorf("%d processes outlive their time", b.sleepers(t, "1000"))
	}
	// Its shell may not have become the other program yet.
	if !s.eventually(func() bool { return b.sleepers(t, "2000") == 1 }) {
		t.Error("a timeout ended another command")
	}
	if err := keep.Signal(s.patient(t), syscall.SIGTERM); err != nil {
		t.Error(err)
	}
}

// sleepers counts the processes of a sandbox that sleep for so long: those with
// that very argument, which the pattern is not.
func (b *box) sleepers(t testing.TB, seconds string) int {
	t.Helper()
	out := b.sh(t, `cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\0' '\n' | grep -cx '[`+seconds[:1]+`]`+seconds[1:]+`' || true`)
	count := 0
	for _, r := range out {
		count = count*10 + int(r-'0')
	}
	return count
}

func (s *suite) outliveClient(t *testing.T) {
	b := s.make(t, sandbox.Spec{})
	ctx, cancel := context.WithCancel(t.Context())
	client := guest.NewClient(b.Dial, guest.ClientOptions{})
	running, err := client.Start(ctx, shell("until [ -e /tmp/go ]; do sleep 0.02; done; echo later; exec sleep 2000"))
	if err != nil {
		t.Fatal(err)
	}
	pid := running.Pid()
	if err := running.Close(); err != nil {
		t.Error(err)
	}
	cancel()
	client.Close()
	list, err := b.Processes(s.patient(t))
	if err != nil || len(list) != 1 || int(list[0].GetPid()) != pid {
		t.Fatalf("%v run, %v; want %d", list, err, pid)
	}
	lines := newLines()
	again, err := b.Connect(s.patient(t), pid, guest.Cmd{Stdout: lines})
	if err != nil {
		t.Fatal(err)
	}
	go again.Wait()
	b.sh(t, "echo > /tmp/go")
	lines.await(t, s.Config, "later")
	if err := again.Signal(s.patient(t), syscall.SIGKILL); err != nil {
		t.Error(err)
	}
}

func (s *suite) orphans(t *testing.T) {
	b := s.make(t, sandbox.Spec{})
	b.sh(t, "for i in 1 2 3 4 5; do (setsid sh -c 'exit 0' >/dev/null 2>&1 &); done")
	zombies := func() string {
		return b.sh(t, `cat /proc/[0-9]*/stat 2>/dev/null | sed 's/.*) //' | grep -c '^Z' || true`)
	}
	if !s.eventually(func() bool { return zombies() == "0" }) {
		t.Errorf("%s zombies are left", zombies())
	}
}
