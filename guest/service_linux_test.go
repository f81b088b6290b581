package guest_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"os/signal"
	"os/user"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"aether/guest"
	"aether/guest/local"
	"aether/sandbox"
)

// serve runs a service over a root and gives a client of it, over the wire.
func serve(t *testing.T, root string, opts guest.Options, as guest.ClientOptions) *guest.Client {
	t.Helper()
	return wire(service(t, root, opts), as)
}

func service(t testing.TB, root string, opts guest.Options) *guest.Service {
	t.Helper()
	backend, err := local.New(root, unifiedCgroup(t))
	if err != nil {
		t.Fatal(err)
	}
	s, err := guest.New(backend, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func dialer(service *guest.Service) func(context.Context) (net.Conn, error) {
	return func(context.Context) (net.Conn, error) {
		near, far := net.Pipe()
		return near, service.ServeConn(far)
	}
}

// busy is a system in which a program is open for writing the first times that it is to be
// executed.
type busy struct {
	guest.Backend
	times int
}

func (b *busy) Start(ctx context.Context, c guest.Command) (guest.Process, error) {
	if b.times--; b.times >= 0 {
		return nil, os.NewSyscallError("execve", syscall.ETXTBSY)
	}
	return b.Backend.Start(ctx, c)
}

// TestBusyProgram: one that was written by this very service a moment ago is started when who
// has a copy of the descriptor has let go of it.
func TestBusyProgram(t *testing.T) {
	backend, err := local.New("/", "")
	if err != nil {
		t.Fatal(err)
	}
	s, err := guest.New(&busy{backend, 3}, asOurselves())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	client := wire(s, guest.ClientOptions{})
	defer client.Close()
	if got, err := run(t, client, sh("echo on")); err != nil || got.stdout != "on\n" {
		t.Errorf("%+v, %v", got, err)
	}
}

// unifiedCgroup makes a group of the unified hierarchy where the host lets us.
// The other way of finding processes is tested in package local.
func unifiedCgroup(t testing.TB) string {
	for _, mount := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"} {
		if _, err := os.Stat(filepath.Join(mount, "cgroup.procs")); err != nil {
			continue
		}
		dir, err := os.MkdirTemp(mount, "aether-test-")
		if err != nil {
			continue
		}
		t.Cleanup(func() {
			groups, _ := filepath.Glob(filepath.Join(dir, "process-*"))
			for _, group := range append(groups, dir) {
				// What was in it may still be about to end.
				waitFor(t, "an empty "+group, func() bool {
					err := os.Remove(group)
					return err == nil || os.IsNotExist(err)
				})
			}
		})
		return dir
	}
	return ""
}

func here(t *testing.T, to way) *guest.Client {
	return to(service(t, "/", asOurselves()), guest.ClientOptions{})
}

func asOurselves() guest.Options {
	return guest.Options{WorkDir: "/tmp", DefaultUser: strconv.Itoa(os.Getuid())}
}

type result struct {
	guest.Status
	stdout, stderr string
}

func run(t *testing.T, client *guest.Client, cmd guest.Cmd) (result, error) {
	t.Helper()
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	r, err := client.Start(t.Context(), cmd)
	if err != nil {
		return result{}, err
	}
	status, err := r.Wait()
	return result{status, out.String(), errs.String()}, err
}

func sh(script string) guest.Cmd { return guest.Cmd{Path: "sh", Args: []string{"-c", script}} }

func TestRun(t *testing.T) { bothWays(t, testRun) }

func testRun(t *testing.T, to way) {
	client := here(t, to)
	for _, c := range []struct {
		script string
		want   result
	}{
		{"echo out; echo err >&2", result{stdout: "out\n", stderr: "err\n"}},
		{"exit 7", result{Status: guest.Status{Code: 7}}},
		{"kill -9 $$", result{Status: guest.Status{Code: -1, Signal: syscall.SIGKILL}}},
		{"pwd", result{stdout: "/tmp\n"}},
		{"cat", result{}},
	} {
		if got, err := run(t, client, sh(c.script)); err != nil || got != c.want {
			t.Errorf("%s: %+v, %v, want %+v", c.script, got, err, c.want)
		}
	}
}

func TestStartErrorsAreTyped(t *testing.T) { bothWays(t, testStartErrorsAreTyped) }

func testStartErrorsAreTyped(t *testing.T, to way) {
	client := here(t, to)
	dir := t.TempDir()
	plain := filepath.Join(dir, "plain")
	if err := os.WriteFile(plain, []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		cmd  guest.Cmd
		want sandbox.Class
	}{
		{"no such name", guest.Cmd{Path: "no-such-program"}, sandbox.NotFound},
		{"no such path", guest.Cmd{Path: "/no/such/program"}, sandbox.NotFound},
		{"not executable", guest.Cmd{Path: plain}, sandbox.Denied},
		{"a directory", guest.Cmd{Path: "/tmp/."}, sandbox.Denied},
		{"nothing", guest.Cmd{}, sandbox.Invalid},
		{"no such directory", guest.Cmd{Path: "true", Dir: "/no/such"}, sandbox.Invalid},
		{"a file as directory", guest.Cmd{Path: "true", Dir: plain}, sandbox.Invalid},
		{"neither directory nor program", guest.Cmd{Path: "no-such-program", Dir: "/no/such"}, sandbox.Invalid},
		{"a bad variable", guest.Cmd{Path: "true", Env: map[string]string{"A=B": ""}}, sandbox.Invalid},
		{"a zero byte", guest.Cmd{Path: "true", Args: []string{"a\x00b"}}, sandbox.Invalid},
		{"too much", guest.Cmd{Path: "true", Args: []string{strings.Repeat("x", 1<<20)}}, sandbox.Invalid},
	} {
		if _, err := run(t, client, c.cmd); sandbox.ClassOf(err) != c.want {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
}

func TestEnvironment(t *testing.T) { bothWays(t, testEnvironment) }

func testEnvironment(t *testing.T, to way) {
	opts := guest.Options{Env: map[string]string{"A": "service", "B": "service"}, DefaultUser: strconv.Itoa(os.Getuid())}
	client := to(service(t, "/", opts), guest.ClientOptions{})
	cmd := sh(`echo $A $B ${PATH:+path} ${HOME:+home} ${USER:+user} ${LOGNAME:+logname} ${SHELL:+shell}`)
	cmd.Env = map[string]string{"B": "request"}
	got, err := run(t, client, cmd)
	if want := "service request path home user logname shell\n"; err != nil || got.stdout != want {
		t.Errorf("%q, %v", got.stdout, err)
	}
}

func TestUser(t *testing.T) { bothWays(t, testUser) }

func testUser(t *testing.T, to way) {
	if os.Getuid() != 0 {
		t.Skip("only root can run as somebody else")
	}
	client := to(service(t, "/", guest.Options{WorkDir: "/", DefaultUser: "4321:8765"}), guest.ClientOptions{})
	got, err := run(t, client, sh("id -u; id -g; id -G"))
	if err != nil || got.stdout != "4321\n8765\n8765\n" {
		t.Errorf("%q, %v", got.stdout, err)
	}
	named := to(service(t, "/", guest.Options{WorkDir: "/"}), guest.ClientOptions{User: "4321"})
	if got, err := run(t, named, sh("id -u")); err != nil || got.stdout != "4321\n" {
		t.Errorf("%q, %v", got.stdout, err)
	}
	stranger := to(service(t, "/", guest.Options{}), guest.ClientOptions{User: "no-such-user"})
	if _, err := run(t, stranger, sh("true")); sandbox.ClassOf(err) != sandbox.Denied {
		t.Errorf("an unknown user: %v", err)
	}
}

// TestWithoutAHome: a user whose home is not there begins at the root.
func TestWithoutAHome(t *testing.T) { bothWays(t, testWithoutAHome) }

func testWithoutAHome(t *testing.T, to way) {
	if os.Getuid() != 0 {
		t.Skip("only root can run as somebody else")
	}
	them, err := user.Lookup("nobody")
	if err != nil {
		t.Skip(err)
	}
	if _, err := os.Stat(them.HomeDir); !errors.Is(err, os.ErrNotExist) {
		t.Skipf("nobody has a home here, %s", them.HomeDir)
	}
	client := to(service(t, "/", guest.Options{DefaultUser: "nobody"}), guest.ClientOptions{})
	if got, err := run(t, client, sh("pwd")); err != nil || got.stdout != "/\n" {
		t.Errorf("%q, %v", got.stdout, err)
	}
}

// TestBinaryOutput carries 64 MiB of bytes that are no text.
func TestBinaryOutput(t *testing.T) { bothWays(t, testBinaryOutput) }

func testBinaryOutput(t *testing.T, to way) {
	const size = 64 << 20
	client := here(t, to)
	// A file gives the same bytes twice: once for us, once for the kernel's tools.
	name := filepath.Join(t.TempDir(), "random")
	if got, err := run(t, client, sh(fmt.Sprintf("head -c %d /dev/urandom > %s", size, name))); err != nil || got.Code != 0 {
		t.Fatalf("%+v, %v", got, err)
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.New()
	var count counter
	r, err := client.Start(t.Context(), guest.Cmd{Path: "cat", Args: []string{name}, Stdout: io.MultiWriter(sum, &count)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Wait(); err != nil {
		t.Fatal(err)
	}
	if count != size || !bytes.Equal(sum.Sum(nil), sum256(want)) {
		t.Errorf("%d bytes came through, and not the same", count)
	}
}

func sum256(data []byte) []byte {
	sum := sha256.Sum256(data)
	return sum[:]
}

type counter int64

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}

// TestFloodWithoutReader lets a process write for a while with nobody reading.
func TestFloodWithoutReader(t *testing.T) { bothWays(t, testFloodWithoutReader) }

func testFloodWithoutReader(t *testing.T, to way) {
	client := here(t, to)
	ctx, cancel := context.WithCancel(t.Context())
	r, err := client.Start(ctx, guest.Cmd{Path: "yes"})
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	r.Close()
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	const flood = 16 << 20
	for end := time.Now().Add(patience); time.Now().Before(end); { // a busy host takes longer
		if runtime.ReadMemStats(&after); after.TotalAlloc-before.TotalAlloc >= flood {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	grown := int64(math.MaxInt64)
	for range 10 { // the flood goes on between the collection and the look
		runtime.GC()
		runtime.ReadMemStats(&after)
		grown = min(grown, int64(after.HeapAlloc)-int64(before.HeapAlloc))
	}
	if grown > 4<<20 {
		t.Errorf("the heap grew by %d bytes", grown)
	}
	if flooded := after.TotalAlloc - before.TotalAlloc; flooded < flood {
		t.Errorf("the process wrote only %d bytes: it waits for somebody", flooded)
	}
	again, err := client.Connect(t.Context(), r.Pid(), guest.Cmd{})
	if err != nil {
		t.Fatal("the process is gone:", err)
	}
	if err := again.Signal(t.Context(), syscall.SIGKILL); err != nil {
		t.Error(err)
	}
	if status, err := again.Wait(); err != nil || status.Signal != syscall.SIGKILL {
		t.Errorf("%+v, %v", status, err)
	}
}

func TestDroppedClientDoesNotKill(t *testing.T) { bothWays(t, testDroppedClientDoesNotKill) }

func testDroppedClientDoesNotKill(t *testing.T, to way) {
	client := here(t, to)
	ctx, cancel := context.WithCancel(t.Context())
	r, err := client.Start(ctx, sh("sleep 0.1; echo late; exit 3"))
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	r.Close()
	waitFor(t, "its end, with nobody connected", func() bool { return !alive(r.Pid()) })
	var out bytes.Buffer
	again, err := client.Connect(t.Context(), r.Pid(), guest.Cmd{Stdout: &out})
	if err != nil {
		t.Fatal(err)
	}
	if status, err := again.Wait(); err != nil || status.Code != 3 || out.String() != "late\n" {
		t.Errorf("%+v, %q, %v", status, out.String(), err)
	}
}

// deaf is a connection whose end is heard of only when something is written to it.
type deaf struct {
	net.Conn
	hears <-chan struct{}
}

func (d deaf) Read(p []byte) (int, error) {
	n, err := d.Conn.Read(p)
	if err != nil {
		<-d.hears
	}
	return n, err
}

// TestOutputThatCouldNotBeSent is kept for who comes next.
func TestOutputThatCouldNotBeSent(t *testing.T) {
	s := service(t, "/", asOurselves())
	hears := make(chan struct{})
	defer close(hears)
	gone := guest.NewClient(func(context.Context) (net.Conn, error) {
		near, far := net.Pipe()
		return near, s.ServeConn(deaf{far, hears})
	}, guest.ClientOptions{})
	ctx, cancel := context.WithCancel(t.Context())
	r, err := gone.Start(ctx, guest.Cmd{Path: "sh", Args: []string{"-c", "read x; echo $x"}, StdinPipe: true})
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	r.Close()
	client := wire(s, guest.ClientOptions{})
	if err := client.SendInput(t.Context(), r.Pid(), []byte("late\n")); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "its end, with nobody connected", func() bool { return !alive(r.Pid()) })
	var out bytes.Buffer
	again, err := client.Connect(t.Context(), r.Pid(), guest.Cmd{Stdout: &out})
	if err != nil {
		t.Fatal(err)
	}
	if status, err := again.Wait(); err != nil || status.Code != 0 || out.String() != "late\n" {
		t.Errorf("%+v, %q, %v", status, out.String(), err)
	}
}

// TestLook: what a process writes that nobody follows can be looked at any number of
// times, and is still there for who connects.
func TestLook(t *testing.T) {
	client := serve(t, "/", guest.Options{KeepOutput: 4 << 10}, guest.ClientOptions{User: strconv.Itoa(os.Getuid())})
	pid, err := client.StartDetached(t.Context(), guest.Cmd{Path: "/bin/sh", Args: []string{"-c", "echo out; echo err >&2; read x; echo over; exit 3"}, StdinPipe: true})
	if err != nil {
		t.Fatal(err)
	}
	look := func(want, wantErr string) *guest.Status {
		t.Helper()
		for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
			var out, complaint strings.Builder
			status, err := client.Look(t.Context(), pid, guest.Cmd{Stdout: &out, Stderr: &complaint})
			if err != nil {
				t.Fatal(err)
			}
			if out.String() == want && complaint.String() == wantErr {
				return status
			}
			if time.Now().After(end) {
				t.Fatalf("%q and %q were written", out.String(), complaint.String())
			}
		}
	}
	for range 3 {
		if status := look("out\n", "err\n"); status != nil {
			t.Errorf("it has ended with %+v", status)
		}
	}
	var out, complaint strings.Builder
	again, err := client.Connect(t.Context(), pid, guest.Cmd{Stdin: strings.NewReader("x\n"), Stdout: &out, Stderr: &complaint})
	if err != nil {
		t.Fatal(err)
	}
	if status, err := again.Wait(); err != nil || status.Code != 3 || out.String() != "out\nover\n" || complaint.String() != "err\n" {
		t.Errorf("%+v, %v, %q, %q", status, err, out.String(), complaint.String())
	}
	if status := look("", ""); status == nil || status.Code != 3 {
		t.Errorf("it has ended with %+v", status)
	}
	_, err = client.Look(t.Context(), 1<<30, guest.Cmd{})
	if sandbox.ClassOf(err) != sandbox.NotFound {
		t.Error(err)
	}
}

// TestTimeoutEndsDaemons gives a process a grandchild that leaves its session
// and its parents, as daemons do.
func TestTimeoutEndsDaemons(t *testing.T) { bothWays(t, testTimeoutEndsDaemons) }

func testTimeoutEndsDaemons(t *testing.T, to way) {
	client := here(t, to)
	file := filepath.Join(t.TempDir(), "pid")
	script := fmt.Sprintf("(setsid sh -c 'echo $$ > %[1]s.new; mv %[1]s.new %[1]s; exec sleep 600' >/dev/null 2>&1 </dev/null &) ; sleep 600", file)
	var text []byte
	// It is given more time until there was a daemon before that was over.
	for limit := 500 * time.Millisecond; text == nil; limit *= 3 {
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		err := waitOf(client.Start(ctx, sh(script)))
		cancel()
		if sandbox.ClassOf(err) != sandbox.Timeout {
			t.Fatalf("%v, want a timeout", err)
		}
		if text, err = os.ReadFile(file); err != nil && limit > patience {
			t.Fatal(err)
		}
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the daemon's end", func() bool { return !alive(pid) })
}

// alive does not count a zombie that nobody reaps.
func alive(pid int) bool {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(data), ") Z ")
}

// patience bounds what has to happen, on a host of any speed.
const patience = 2 * time.Minute

func waitFor(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if ok() {
			return
		}
	}
	t.Errorf("no sign of %s", what)
}

func TestInput(t *testing.T) { bothWays(t, testInput) }

func testInput(t *testing.T, to way) {
	client := here(t, to)
	want := bytes.Repeat([]byte("0123456789abcdef"), 1<<16) // more than any pipe holds
	cmd := guest.Cmd{Path: "cat", Stdin: bytes.NewReader(want)}
	got, err := run(t, client, cmd)
	if err != nil || got.stdout != string(want) {
		t.Errorf("%d bytes of %d, %v", len(got.stdout), len(want), err)
	}
	// One that does not read its input ends all the same.
	cmd = sh("exit 4")
	cmd.Stdin = bytes.NewReader(want)
	if got, err := run(t, client, cmd); err != nil || got.Code != 4 {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestSignal(t *testing.T) { bothWays(t, testSignal) }

func testSignal(t *testing.T, to way) {
	if signal.Ignored(syscall.SIGINT) {
		// So do programs that this one starts, as in the background of a script, and a shell
		// cannot change that. A signal that is caught is not inherited.
		caught := make(chan os.Signal, 1)
		signal.Notify(caught, syscall.SIGINT)
		defer signal.Ignore(syscall.SIGINT)
	}
	client := here(t, to)
	lines := make(lineWriter, 10)
	r, err := client.Start(t.Context(), guest.Cmd{Path: "sh", Args: []string{"-c", "trap 'echo caught; exit 5' INT; echo ready; while :; do sleep 0.05; done"}, Stdout: lines})
	if err != nil {
		t.Fatal(err)
	}
	sent := make(chan error, 1)
	go func() {
		lines.wait("ready")
		sent <- r.Signal(context.Background(), syscall.SIGINT)
	}()
	if status, err := r.Wait(); err != nil || status.Code != 5 {
		t.Errorf("%+v, %v", status, err)
	}
	if err := <-sent; err != nil {
		t.Error(err)
	}
	if err := r.Signal(t.Context(), syscall.SIGTERM); sandbox.ClassOf(err) != sandbox.NotFound {
		t.Errorf("a signal to a process that has ended: %v", err)
	}
	if err := r.Signal(t.Context(), 99); sandbox.ClassOf(err) == sandbox.Internal {
		t.Errorf("a signal that is none: %v", err)
	}
}

type lineWriter chan string

func (l lineWriter) Write(p []byte) (int, error) {
	l <- string(p)
	return len(p), nil
}

func (l lineWriter) wait(text string) {
	for got := range l {
		if strings.Contains(got, text) {
			return
		}
	}
}

func TestTerminal(t *testing.T) { bothWays(t, testTerminal) }

func testTerminal(t *testing.T, to way) {
	client := here(t, to)
	out := make(lineWriter, 100)
	in, typed := io.Pipe()
	r, err := client.Start(t.Context(), guest.Cmd{Path: "sh", Stdin: in, Stdout: out, Terminal: &guest.Size{Cols: 80, Rows: 24}})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan guest.Status)
	go func() {
		status, err := r.Wait()
		if err != nil {
			t.Error(err)
		}
		close(out)
		done <- status
	}()
	fmt.Fprintln(typed, "stty size; tty")
	out.wait("24 80")
	if err := r.Resize(t.Context(), guest.Size{Cols: 132, Rows: 50}); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintln(typed, "stty size")
	out.wait("50 132")
	fmt.Fprintln(typed, "exit 6")
	if status := <-done; status.Code != 6 {
		t.Errorf("%+v", status)
	}
}

func TestListAndTag(t *testing.T) { bothWays(t, testListAndTag) }

func testListAndTag(t *testing.T, to way) {
	client := here(t, to)
	r, err := client.Start(t.Context(), guest.Cmd{Path: "sleep", Args: []string{"60"}, Tag: "mine"})
	if err != nil {
		t.Fatal(err)
	}
	all, err := client.Processes(t.Context())
	if err != nil || len(all) != 1 || all[0].GetTag() != "mine" || int(all[0].GetPid()) != r.Pid() || all[0].GetConfig().GetCmd() != "sleep" {
		t.Errorf("%v, %v", all, err)
	}
	if err := r.Signal(t.Context(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Wait(); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "an empty list", func() bool {
		all, err := client.Processes(t.Context())
		return err == nil && len(all) == 0
	})
}

func TestCloseEndsProcesses(t *testing.T) { bothWays(t, testCloseEndsProcesses) }

func testCloseEndsProcesses(t *testing.T, to way) {
	service := service(t, "/", guest.Options{WorkDir: "/"})
	client := to(service, guest.ClientOptions{User: strconv.Itoa(os.Getuid())})
	r, err := client.Start(t.Context(), guest.Cmd{Path: "sleep", Args: []string{"60"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := service.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Wait(); err == nil {
		t.Error("the stream went on")
	}
	waitFor(t, "the process's end", func() bool { return !alive(r.Pid()) })
	if _, err := client.Start(t.Context(), sh("true")); err == nil {
		t.Error("a closed service started something")
	}
}

func TestManyAtOnce(t *testing.T) { bothWays(t, testManyAtOnce) }

func testManyAtOnce(t *testing.T, to way) {
	client := here(t, to)
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			got, err := run(t, client, sh(fmt.Sprintf("echo %d", i)))
			if err != nil || got.stdout != fmt.Sprintln(i) {
				t.Errorf("%d: %+v, %v", i, got, err)
			}
		})
	}
	wg.Wait()
}
