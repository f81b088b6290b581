package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"aether/driver/command"
	"aether/driver/guestagent"
	"aether/driver/guestagent/guestagenttest"
	"aether/guest"
	"aether/guest/pid1"
	"aether/sandbox"
)

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "aether-guest-")
	if err == nil {
		err = os.Unsetenv(guestagent.PathVariable) // this very source is tested
	}
	if err == nil {
		err = guestagenttest.Build(dir)
	}
	if err != nil {
		os.Stderr.WriteString(err.Error() + "\n")
		os.Exit(1)
	}
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

func program() string { return os.Getenv(guestagent.PathVariable) }

// maxSize is what a guest may take of an initramfs, and of every machine.
const maxSize = 17 << 19

func TestSize(t *testing.T) {
	info, err := os.Stat(program())
	if err != nil || info.Size() > maxSize {
		t.Errorf("%d bytes are more than %d (%v)", info.Size(), maxSize, err)
	}
	t.Logf("%d bytes", info.Size())
}

// TestImports holds the program to a list: what runs as root in every sandbox is
// read before it grows.
func TestImports(t *testing.T) {
	text, err := os.ReadFile("imports.txt")
	if err != nil {
		t.Fatal(err)
	}
	allowed := strings.Fields(string(text))
	list := exec.Command("go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", ".")
	list.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux")
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	used := strings.Fields(string(out))
	for _, path := range used {
		if !slices.ContainsFunc(allowed, func(pattern string) bool { return matches(pattern, path) }) {
			t.Errorf("%s is imported and not in imports.txt", path)
		}
	}
	for _, pattern := range allowed {
		if !slices.ContainsFunc(used, func(path string) bool { return matches(pattern, path) }) {
			t.Errorf("%s is in imports.txt and not imported", pattern)
		}
	}
}

// matches knows patterns that end with /... as go list does.
func matches(pattern, path string) bool {
	tree, wild := strings.CutSuffix(pattern, "/...")
	return path == tree || wild && strings.HasPrefix(path, tree+"/")
}

// patience is how long what must happen is waited for, also on a host that is slow: who
// waits for it that long has found a defect.
const patience = time.Minute

// running is the program with its standard descriptors as the channel.
type running struct {
	*exec.Cmd
	pipes  *guestagent.Pipes
	client *guest.Client
}

func start(t *testing.T, attr *syscall.SysProcAttr, args ...string) *running {
	t.Helper()
	pipes, err := guestagent.NewPipes()
	if err != nil {
		t.Fatal(err)
	}
	child := pipes.Child()
	cmd := exec.Command(program(), args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = child[0], child[1], child[2], attr
	if err := cmd.Start(); err != nil {
		t.Skipf("this host cannot start it so: %v", err)
	}
	if err := pipes.Started(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	dialer, err := pipes.Join(ctx, guestagent.Settings{User: strconv.Itoa(os.Getuid()), WorkDir: "/", Env: map[string]string{"GIVEN": "yes"}})
	if err != nil {
		t.Fatal(err)
	}
	r := &running{Cmd: cmd, pipes: pipes, client: guest.NewClient(dialer.Dial, guest.ClientOptions{})}
	t.Cleanup(func() {
		r.client.Close()
		dialer.Close()
		pipes.Close()
		cmd.Process.Kill()
		cmd.Wait()
	})
	return r
}

func (r *running) sh(t *testing.T, script string) string {
	t.Helper()
	var out bytes.Buffer
	p, err := r.client.Start(t.Context(), guest.Cmd{Path: "/bin/sh", Args: []string{"-c", script}, Stdout: &out, Stderr: &out})
	if err != nil {
		t.Fatal(err)
	}
	if status, err := p.Wait(); err != nil || status.Code != 0 {
		t.Fatalf("%q: %+v, %v: %s", script, status, err, out.String())
	}
	return strings.TrimSpace(out.String())
}

// alone makes the program the first of a pid namespace.
func alone() *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
	if os.Getuid() != 0 {
		attr.Cloneflags |= syscall.CLONE_NEWUSER
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getuid(), HostID: os.Getuid(), Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getgid(), HostID: os.Getgid(), Size: 1}}
	}
	return attr
}

func TestServesOverStdio(t *testing.T) {
	r := start(t, nil)
	if got := r.sh(t, "echo $GIVEN; pwd; cat /proc/self/oom_score_adj"); got != "yes\n/\n500" {
		t.Errorf("got %q", got)
	}
	if err := r.client.Write(t.Context(), filepath.Join(t.TempDir(), "file"), strings.NewReader("x")); err != nil {
		t.Error(err)
	}
}

// TestEndsWithItsHost: no input any more, no sandbox any more.
func TestEndsWithItsHost(t *testing.T) {
	r := start(t, alone())
	if _, err := r.client.Start(t.Context(), guest.Cmd{Path: "/bin/sh", Args: []string{"-c", "trap '' HUP TERM; sleep 1000 & wait"}}); err != nil {
		t.Fatal(err)
	}
	r.pipes.Close()
	ended := make(chan error, 1)
	go func() { ended <- r.Wait() }()
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("%v: %s", err, r.pipes.Said())
		}
	case <-time.After(patience):
		t.Error("it lives on")
	}
}

// TestSurvivesSignals: a command that signals everybody ends itself only.
func TestSurvivesSignals(t *testing.T) {
	r := start(t, alone())
	for _, signal := range []string{"HUP", "INT", "QUIT", "TERM", "USR1", "SEGV", "ABRT", "PIPE", "ALRM", "CHLD", "PROF", "KILL", "STOP"} {
		r.sh(t, "kill -"+signal+" 1")
	}
	// Commands take signals as usual: none is ignored for them.
	p, err := r.client.Start(t.Context(), guest.Cmd{Path: "/bin/sh", Args: []string{"-c", "kill -TERM $$; sleep 5"}})
	if err != nil {
		t.Fatal(err)
	}
	if status, err := p.Wait(); err != nil || status.Signal != syscall.SIGTERM {
		t.Errorf("%+v, %v", status, err)
	}
}

func TestReapsOrphans(t *testing.T) {
	r := start(t, nil) // not the first process: it adopts them all the same
	r.sh(t, "for i in 1 2 3 4 5 6 7 8; do (setsid sh -c 'sleep 0.05' >/dev/null 2>&1 &); done")
	zombies := func() (n int) {
		out, _ := exec.Command("ps", "--ppid", strconv.Itoa(r.Process.Pid), "-o", "stat=").Output()
		return strings.Count(string(out), "Z")
	}
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if zombies() == 0 && len(children(t, r.Process.Pid)) == 0 {
			return
		}
	}
	t.Errorf("%d zombies, %v children", zombies(), children(t, r.Process.Pid))
}

func children(t *testing.T, pid int) []string {
	t.Helper()
	var all []string
	tasks, err := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/task/*/children")
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range tasks {
		text, _ := os.ReadFile(task)
		all = append(all, strings.Fields(string(text))...)
	}
	return all
}

// TestIsHidden: a command of the same user cannot look into the service.
func TestIsHidden(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("root looks into everything")
	}
	r := start(t, alone())
	r.sh(t, "! cat /proc/"+strconv.Itoa(r.Process.Pid)+"/environ")
}

// TestFiltersItself: on every thread that it has, and on what it starts.
func TestFiltersItself(t *testing.T) {
	args, err := command.FilteringArgs()
	if err != nil {
		t.Fatal(err)
	}
	r := start(t, nil, args[1:]...)
	statuses, err := filepath.Glob("/proc/" + strconv.Itoa(r.Process.Pid) + "/task/*/status")
	if err != nil || len(statuses) < 2 {
		t.Fatalf("%q, %v", statuses, err)
	}
	for _, name := range statuses {
		status, err := os.ReadFile(name)
		if err != nil || !strings.Contains(string(status), "\nSeccomp:\t2\n") || !strings.Contains(string(status), "\nNoNewPrivs:\t1\n") {
			t.Errorf("%s: %v\n%s", name, err, status)
		}
	}
	if got := r.sh(t, "grep Seccomp: /proc/self/status"); got != "Seccomp:\t2" {
		t.Errorf("a command: %s", got)
	}
}

// TestFilterThatIsNone: nothing is served without the filter that was asked for.
func TestFilterThatIsNone(t *testing.T) {
	for _, text := range []string{"", "AAAA", "AAAAAAAAAAA=", "no base64"} {
		if out, err := exec.Command(program(), "-filter", text).CombinedOutput(); err == nil {
			t.Errorf("%q: it served: %s", text, out)
		}
	}
}

func TestServesAUnixSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "socket")
	cmd := exec.Command(program(), "-channel", "unix:"+path, "-user", strconv.Itoa(os.Getuid()), "-workdir", "/tmp")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		cmd.Process.Kill()
		cmd.Wait()
	}()
	dial := func(ctx context.Context) (conn net.Conn, err error) {
		for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
			if conn, err = new(net.Dialer).DialContext(ctx, "unix", path); err == nil {
				break
			}
		}
		return conn, err
	}
	r := &running{client: guest.NewClient(dial, guest.ClientOptions{})}
	if got := r.sh(t, "pwd"); got != "/tmp" {
		t.Errorf("got %q: %s", got, stderr.String())
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v: others can connect", info.Mode(), err)
	}
	// What only a machine's init can do is not served.
	if err := pid1.PowerOff(t.Context(), dial); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("power off: %v", err)
	}
	if err := pid1.SetClock(t.Context(), dial, time.Now()); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("clock: %v", err)
	}
}

func TestBadFlags(t *testing.T) {
	config := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(config, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"-channel", "nonsense"}, {"-no-such"}, {"word"}, {"-config", "/no/such"}, {"-config", config}, {"-workdir", "relative"}} {
		var stderr bytes.Buffer
		if code := run(args, &stderr); code != 2 || stderr.Len() == 0 {
			t.Errorf("%q: code %d, %q", args, code, stderr.String())
		}
	}
}

func TestConfigFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config")
	text, err := json.Marshal(pid1.Config{Channel: "unix:/a", User: "one", Limits: sandbox.Limits{Processes: 3}})
	if err == nil {
		err = os.WriteFile(file, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	c, err := parse([]string{"-user", "before", "-config", file, "-channel", "unix:/b"}, os.Stderr)
	if err != nil || c.Channel != "unix:/b" || c.User != "one" || c.Limits.Processes != 3 {
		t.Errorf("%+v, %v", c, err)
	}
}
