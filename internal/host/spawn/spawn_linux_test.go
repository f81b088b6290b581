package spawn

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

func TestLayoutsMatchTheAssembly(t *testing.T) {
	var c control
	for _, field := range []struct {
		name      string
		got, want uintptr
	}{
		{"clone", unsafe.Offsetof(c.clone), 16},
		{"failedStep", unsafe.Offsetof(c.failedStep), 104},
		{"failedErr", unsafe.Offsetof(c.failedErr), 112},
		{"step size", unsafe.Sizeof(step{}), stepSize},
		{"step.args", unsafe.Offsetof(step{}.args), 8},
		{"step.flags", unsafe.Offsetof(step{}.flags), 56},
		{"step.dst", unsafe.Offsetof(step{}.dst), 64},
		{"step.res", unsafe.Offsetof(step{}.res), 72},
		{"clone_args", unsafe.Sizeof(cloneArgs{}), 88},
		{"siginfo", unsafe.Sizeof(childInfo{}), 128},
	} {
		if field.got != field.want {
			t.Errorf("%s is at or of %d, the assembly or the kernel says %d", field.name, field.got, field.want)
		}
	}
	if size := unsafe.Sizeof(c); size > controlSize {
		t.Errorf("the control block has %d bytes, over %d", size, controlSize)
	}
}

func newScript(t *testing.T) *Script {
	t.Helper()
	s, err := NewScript(0)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func execute(s *Script, argv ...string) {
	s.Call(unix.SYS_CLOSE_RANGE, 3, ^uintptr(0)&0xffffffff, unix.CLOSE_RANGE_CLOEXEC)
	s.Call(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, s.NoSignals(), 0, 8)
	s.Call(unix.SYS_EXECVE, s.String(argv[0]), s.Strings(argv), s.Strings([]string{"A=b"}))
}

func startAndAwait(t *testing.T, s *Script, flags uint64) (*Process, error) {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	started, err := s.Start(flags, -1)
	if err != nil {
		t.Fatal(err)
	}
	p, err := started.Await()
	if done := started.Done(); done != nil {
		t.Error(done)
	}
	return p, err
}

func TestRunsAProgram(t *testing.T) {
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	s := newScript(t)
	s.Call(unix.SYS_DUP3, write.Fd(), 1, 0)
	execute(s, "/bin/sh", "-c", "echo $A $0 $1; exit 7", "x", "y z")
	p, err := startAndAwait(t, s, 0)
	if err != nil {
		t.Fatal(err)
	}
	write.Close()
	out, _ := io.ReadAll(read)
	status, err := p.Wait()
	if err != nil || string(out) != "b x y z\n" || status.Code != 7 || status.Signal != 0 {
		t.Fatalf("out %q, status %+v, err %v", out, status, err)
	}
	if again, err := p.Wait(); again != status || err != nil {
		t.Errorf("a second Wait says %+v, %v", again, err)
	}
	if err := p.Signal(syscall.SIGTERM); !errors.Is(err, unix.ESRCH) {
		t.Errorf("a signal to a reaped process: %v", err)
	}
}

func TestSaysWhichStepFailed(t *testing.T) {
	s := newScript(t)
	s.Call(unix.SYS_CHDIR, s.String("/nowhere/at/all")).MayFail()
	s.Call(unix.SYS_CHDIR, s.String("/does/not/exist"))
	execute(s, "/bin/true")
	_, err := startAndAwait(t, s, 0)
	var failure *Failure
	if !errors.As(err, &failure) || failure.Errno != unix.ENOENT || failure.Step != `chdir("/does/not/exist")` {
		t.Fatalf("got %v", err)
	}
}

func TestResultsFlowIntoLaterSteps(t *testing.T) {
	path := t.TempDir() + "/out"
	s := newScript(t)
	open := s.Call(unix.SYS_OPENAT, ^uintptr(99), s.String(path), unix.O_CREAT|unix.O_WRONLY, 0o600)
	write := s.Call(unix.SYS_WRITE, 0, s.String("hello"), 5)
	open.Into(write, 0)
	execute(s, "/bin/true")
	p, err := startAndAwait(t, s, 0)
	if err != nil {
		t.Fatal(err)
	}
	p.Wait()
	if got, _ := os.ReadFile(path); string(got) != "hello" {
		t.Errorf("the file holds %q", got)
	}
	if write.Result() != 5 {
		t.Errorf("write returned %d", write.Result())
	}
}

func TestWaitsForAWord(t *testing.T) {
	s := newScript(t)
	word := s.Word()
	s.Wait(word, 0)
	pid := s.Call(unix.SYS_GETPID)
	execute(s, "/bin/true")
	started, err := s.Start(0, -1)
	if err != nil {
		t.Fatal(err)
	}
	if pid.Result() != 0 {
		t.Error("the child did not wait")
	}
	word.Set()
	p, err := started.Await()
	if err != nil {
		t.Fatal(err)
	}
	if got := pid.Result(); got != int64(p.Pid()) {
		t.Errorf("getpid gave %d in the child, clone %d here", got, p.Pid())
	}
	p.Wait()
}

func TestGivesUpWaitingForAWord(t *testing.T) {
	s := newScript(t)
	s.Wait(s.Word(), 10*time.Millisecond)
	execute(s, "/bin/true")
	if _, err := startAndAwait(t, s, 0); !errors.Is(err, unix.EAGAIN) {
		t.Errorf("got %v", err)
	}
}

// TestStepsCanBeAddedWhileTheChildWaits is what makes processes ahead of the
// time when it is known what they shall do.
func TestStepsCanBeAddedWhileTheChildWaits(t *testing.T) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	s := newScript(t)
	word := s.Word()
	s.Announce(null.Fd())
	s.Wait(word, time.Minute)
	started, err := s.Start(0, -1)
	if err != nil {
		t.Fatal(err)
	}
	if err := started.Announced(); err != nil {
		t.Fatal(err)
	}
	execute(s, "/bin/sh", "-c", "exit 8")
	word.Set()
	if err := started.Left(); err != nil {
		t.Error(err)
	}
	if status, err := started.Process().Wait(); err != nil || status.Code != 8 {
		t.Errorf("status %+v, err %v", status, err)
	}
}

func TestAFailureBeforeTheMarkIsReported(t *testing.T) {
	s := newScript(t)
	s.Call(unix.SYS_CHDIR, s.String("/does/not/exist"))
	started, err := s.Start(0, -1)
	if err != nil {
		t.Fatal(err)
	}
	if err := started.Announced(); !errors.Is(err, unix.ENOENT) {
		t.Errorf("got %v", err)
	}
	started.Process().Wait()
}

func TestBranchGivesTheSecondProcess(t *testing.T) {
	s := newScript(t)
	clone := s.Branch(-1)
	s.Exit()
	s.Land(clone)
	execute(s, "/bin/sh", "-c", "exit 9")
	p, err := startAndAwait(t, s, 0)
	if err != nil {
		t.Fatal(err)
	}
	if status, err := p.Wait(); err != nil || status.Code != 9 {
		t.Errorf("status %+v, err %v", status, err)
	}
}

// TestAStoppedChildIsAbandoned: where a child enters, others may stop it.
func TestAStoppedChildIsAbandoned(t *testing.T) {
	defer func(before time.Duration) { patience = before }(patience)
	patience = 50 * time.Millisecond
	s := newScript(t)
	clone := s.Branch(-1)
	s.Exit()
	s.Land(clone)
	self := s.Call(unix.SYS_GETPID)
	self.Into(s.Call(unix.SYS_KILL, 0, uintptr(unix.SIGSTOP)), 0)
	execute(s, "/bin/true")
	if _, err := startAndAwait(t, s, 0); !errors.Is(err, ErrAbandoned) {
		t.Errorf("got %v", err)
	}
}

// TestASlowChildIsWaitedFor: a busy host stops nobody.
func TestASlowChildIsWaitedFor(t *testing.T) {
	defer func(before time.Duration, times time.Duration) { patience, slowest = before, times }(patience, slowest)
	patience, slowest = 50*time.Millisecond, 1000
	s := newScript(t)
	time, mem := s.Bytes(16)
	binary.NativeEndian.PutUint64(mem[8:], 150e6) // nanoseconds
	s.Call(unix.SYS_NANOSLEEP, time, 0)
	execute(s, "/bin/true")
	p, err := startAndAwait(t, s, 0)
	if err != nil {
		t.Fatal(err)
	}
	p.Wait()
}

func TestBranchFailureIsReported(t *testing.T) {
	s := newScript(t)
	clone := s.Branch(-1)
	s.Exit()
	s.Land(clone)
	execute(s, "/no/such/program")
	if _, err := startAndAwait(t, s, 0); !errors.Is(err, unix.ENOENT) {
		t.Errorf("got %v", err)
	}
}

func TestKilledIsASignal(t *testing.T) {
	s := newScript(t)
	execute(s, "/bin/sleep", "60")
	p, err := startAndAwait(t, s, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if status, _ := p.Wait(); status.Signal != syscall.SIGTERM {
		t.Errorf("status %+v", status)
	}
}

func TestArgumentsThatDoNotFit(t *testing.T) {
	s := newScript(t)
	execute(s, "/bin/true", strings.Repeat("x", defaultArena))
	if _, err := s.Start(0, -1); !errors.Is(err, unix.E2BIG) {
		t.Errorf("got %v", err)
	}
	if _, err := NewScript(maxArena + 1); !errors.Is(err, unix.E2BIG) {
		t.Errorf("got %v", err)
	}
}

func TestTooManySteps(t *testing.T) {
	s := newScript(t)
	for range maxSteps + 1 {
		s.Call(unix.SYS_GETPID)
	}
	if _, err := s.Start(0, -1); err == nil {
		t.Error("a script of too many steps started")
	}
}

func TestPauseProgramIsSealedAndSleeps(t *testing.T) {
	file, err := Pause()
	if err != nil {
		t.Fatal(err)
	}
	if info, _ := file.Stat(); info.Size() > 200 {
		t.Errorf("%d bytes", info.Size())
	}
	if _, err := file.WriteAt([]byte{1}, 0); err == nil {
		t.Error("the sealed program was written to")
	}
	s := newScript(t)
	s.Call(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, s.NoSignals(), 0, 8)
	s.Call(unix.SYS_EXECVEAT, file.Fd(), s.String(""), s.Strings([]string{"init"}), s.Strings(nil), unix.AT_EMPTY_PATH)
	p, err := startAndAwait(t, s, 0)
	if err != nil {
		t.Fatal(err)
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", p.Pid()))
	if err != nil || len(stat) == 0 {
		t.Errorf("it does not live: %q, %v", stat, err)
	}
	p.Signal(syscall.SIGKILL)
	if status, _ := p.Wait(); status.Signal != syscall.SIGKILL {
		t.Errorf("it ended by itself: %+v", status)
	}
}

// TestExecutableFileWhereTheyAreNotExecuted: a host may have files in memory that nobody
// executes, unless who made one asked for it.
func TestExecutableFileWhereTheyAreNotExecuted(t *testing.T) {
	const sysctl, inside = "/proc/sys/vm/memfd_noexec", "AETHER_TEST_MEMFD_NOEXEC"
	if os.Getenv(inside) == "" {
		if _, err := os.Stat(sysctl); err != nil || os.Geteuid() != 0 {
			t.Skip("it needs root, and Linux 6.3 for the sysctl vm.memfd_noexec")
		}
		cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.v")
		cmd.Env = append(os.Environ(), inside+"=1")
		// The sysctl belongs to the pid namespace of who writes it.
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
		return
	}
	if err := os.WriteFile(sysctl, []byte("1"), 0); err != nil {
		t.Fatal(err)
	}
	file, err := Pause()
	if err != nil {
		t.Fatal(err)
	}
	s := newScript(t)
	s.Call(unix.SYS_EXECVEAT, file.Fd(), s.String(""), s.Strings([]string{"init"}), s.Strings(nil), unix.AT_EMPTY_PATH)
	p, err := startAndAwait(t, s, 0)
	if err != nil {
		t.Fatal(err)
	}
	p.Signal(syscall.SIGKILL)
	if _, err := p.Wait(); err != nil {
		t.Error(err)
	}
}

func TestExplainPrintsWhatRuns(t *testing.T) {
	s := newScript(t)
	s.Call(unix.SYS_MOUNT, s.String("tmpfs"), s.String("/t"), s.String("tmpfs"), 6, s.String("size=1m"))
	s.Call(unix.SYS_SETSID).MayFail()
	execute(s, "/bin/echo", "a b")
	var out bytes.Buffer
	if err := s.Explain(&out, 0, s.Len()); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`mount("tmpfs", "/t", "tmpfs", 0x6, "size=1m")`, "setsid() ?", `execve("/bin/echo", ["/bin/echo" "a b"], ["A=b"])`} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in:\n%s", want, out.String())
		}
	}
}

// TestConcurrentWithEverythingElse spawns while the garbage collector runs and
// os/exec starts programs of its own: the child must never see a moved stack or
// a foreign signal, and neither side may lose the other's children.
func TestConcurrentWithEverythingElse(t *testing.T) {
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 50 {
				s, err := NewScript(0)
				if err != nil {
					t.Error(err)
					return
				}
				execute(s, "/bin/true")
				p, err := startAndAwait(t, s, 0)
				if err != nil {
					t.Error(err)
					return
				}
				if status, err := p.Wait(); err != nil || status != (Status{MaxRSS: status.MaxRSS, CPU: status.CPU}) {
					t.Errorf("status %+v, err %v", status, err)
				}
			}
		})
		wg.Go(func() {
			for range 20 {
				if err := exec.Command("/bin/true").Run(); err != nil {
					t.Error(err)
				}
				runtime.GC()
			}
		})
	}
	wg.Wait()
}

func BenchmarkSpawn(b *testing.B) {
	for b.Loop() {
		s, err := NewScript(0)
		if err != nil {
			b.Fatal(err)
		}
		execute(s, "/bin/true")
		started, err := s.Start(0, -1)
		if err != nil {
			b.Fatal(err)
		}
		p, err := started.Await()
		if err != nil {
			b.Fatal(err)
		}
		p.Wait()
		s.Free()
	}
}

// TestThreadsAreNeverTheFirst holds what /proc/self relies on: threads change
// their namespaces, and the first thread's are taken for the program's.
func TestThreadsAreNeverTheFirst(t *testing.T) {
	for range 2 * runtime.GOMAXPROCS(0) {
		var first bool
		thread, err := NewThread(func() error {
			first = unix.Gettid() == unix.Getpid()
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		defer thread.Close()
		if first {
			t.Fatal("a spawning thread is the program's first")
		}
	}
}
