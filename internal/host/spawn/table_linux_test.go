package spawn

import (
	"io"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// many gives a descriptor far above the others.
func many(t *testing.T, file *os.File, at int) uintptr {
	t.Helper()
	fd, err := unix.FcntlInt(file.Fd(), unix.F_DUPFD_CLOEXEC, at)
	if err != nil {
		t.Fatal(err)
	}
	return uintptr(fd)
}

// TestChildrenTakeWhatTheyName: a child has every descriptor that its script names,
// wherever that is, and none that is above those; what it does to its own is not
// seen here.
func TestChildrenTakeWhatTheyName(t *testing.T) {
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	named := many(t, write, 1500)
	above := many(t, write, int(named)+100)
	var before unix.Stat_t
	if err := unix.Fstat(0, &before); err != nil {
		t.Fatal(err)
	}
	s := newScript(t)
	s.Call(unix.SYS_DUP3, named, 1, 0)
	s.Call(unix.SYS_DUP3, named, 0, 0)
	s.Call(unix.SYS_FCNTL, named, unix.F_SETFD, 0)
	for _, fd := range []uintptr{above - 1, above} {
		s.Call(unix.SYS_CLOSE_RANGE, fd, fd, 0)
	}
	s.Call(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, s.NoSignals(), 0, 8)
	s.Call(unix.SYS_EXECVE, s.String("/bin/ls"), s.Strings([]string{"ls", "/proc/self/fd"}), s.Strings(nil))
	if limit := s.firstUnused(); limit != named+1 {
		t.Errorf("the child keeps what is below %d, and names %d", limit, named)
	}
	p, err := startAndAwait(t, s, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Wait(); err != nil {
		t.Fatal(err)
	}
	if err := unix.Dup3(int(named), int(above), unix.O_CLOEXEC); err != nil {
		t.Fatalf("the child has closed a descriptor of ours: %v", err)
	}
	var after unix.Stat_t
	if err := unix.Fstat(0, &after); err != nil || after.Ino != before.Ino {
		t.Errorf("standard input is another: %v", err)
	}
	unix.Close(int(named))
	unix.Close(int(above))
	write.Close()
	out, err := io.ReadAll(read)
	if err != nil {
		t.Fatal(err)
	}
	if open := strings.Fields(string(out)); len(open) < 4 || !strings.Contains(string(out), "1500") {
		t.Errorf("open in the child: %v", open)
	}
}

// TestProcessesAreAside: those who live do not make the copies of others larger, but for
// the first.
func TestProcessesAreAside(t *testing.T) {
	near.Store(0)
	stayed := 0
	for range 2 * maxNear {
		fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
		if err != nil {
			t.Fatal(err)
		}
		was := fd
		if fd = Aside(fd); fd == was {
			stayed++
		} else if fd < aside {
			t.Errorf("%d became %d", was, fd)
		}
		defer unix.Close(fd)
	}
	if stayed == 0 || stayed > maxNear {
		t.Errorf("%d stayed", stayed)
	}
	s := newScript(t)
	execute(s, "/bin/sleep", "1000")
	p, err := startAndAwait(t, s, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Fd(func(fd int) {
		if fd < aside {
			t.Errorf("the process is held by the descriptor %d", fd)
		}
	}); err != nil {
		t.Error(err)
	}
	if err := p.Near(20, func(fd int) error {
		if fd < 20 || fd >= aside {
			t.Errorf("for scripts it is held by the descriptor %d", fd)
		}
		return unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
	}); err != nil {
		t.Error(err)
	}
	if status, err := p.Wait(); err != nil || status.Signal != unix.SIGKILL {
		t.Errorf("%+v, %v", status, err)
	}
}

// TestPipesAreAside: our ends of the pipes of many commands are out of the way, and those of
// a few stay where they are.
func TestPipesAreAside(t *testing.T) {
	for n := range 2 * smallTable {
		for name, make := range map[string]func() (r, w *os.File, err error){"output": OutputPipe, "input": InputPipe} {
			r, w, err := make()
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { r.Close(); w.Close() })
			ours, child := descriptorOf(t, r), descriptorOf(t, w)
			if name == "input" {
				ours, child = child, ours
			}
			if ours < aside && ours >= smallTable || child >= aside {
				t.Errorf("%s %d: our end is %d, the child's %d", name, n, ours, child)
			}
			if _, err := w.WriteString("here"); err != nil {
				t.Error(err)
			}
			got := [4]byte{}
			if _, err := io.ReadFull(r, got[:]); err != nil || string(got[:]) != "here" {
				t.Errorf("%s %d: read %q, %v", name, n, got, err)
			}
		}
	}
}

// descriptorOf is a file's descriptor, which stays as it is.
func descriptorOf(t *testing.T, file *os.File) (fd int) {
	t.Helper()
	conn, err := file.SyscallConn()
	if err == nil {
		err = conn.Control(func(its uintptr) { fd = int(its) })
	}
	if err != nil {
		t.Fatal(err)
	}
	return fd
}

// TestParted: what a script names can be closed once its child says that it has it.
func TestParted(t *testing.T) {
	for range 200 {
		file, err := os.Open("/dev/null")
		if err != nil {
			t.Fatal(err)
		}
		s := newScript(t)
		s.TellParted()
		s.Call(unix.SYS_FCNTL, file.Fd(), unix.F_GETFD, 0)
		execute(s, "/bin/true")
		started, err := s.Start(0, -1)
		if err != nil {
			t.Fatal(err)
		}
		started.Parted()
		if err := file.Close(); err != nil {
			t.Fatal(err)
		}
		p, err := started.Await()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.Wait(); err != nil {
			t.Fatal(err)
		}
		if err := started.Done(); err != nil {
			t.Fatal(err)
		}
	}
}
