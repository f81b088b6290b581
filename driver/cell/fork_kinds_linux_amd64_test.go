package cell_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"aether/guest"
	"aether/internal/host/checkpoint/checkpointtest"
	"aether/sandbox"
)

// TestForkOfProcessesThatShare forks two commands that share memory, a pipe and a
// connection, which one has sent the other.
func TestForkOfProcessesThatShare(t *testing.T) {
	needRoot(t, "fork of everything that a process may hold")
	driver, _ := newDriverAhead(t, 8)
	source := create(t, driver, sandbox.Spec{})
	first := converse(t, source, 0, "python3", "-c", checkpointtest.Kind{Before: `
memory = os.memfd_create("both"); os.ftruncate(memory, 4096); shared = mmap.mmap(memory, 4096)
r, w = os.pipe(); f = os.open("/tmp/both", os.O_RDWR | os.O_CREAT); os.write(f, b"abcdef"); os.lseek(f, 0, 0)
l = socket.socket(socket.AF_UNIX); l.bind("/tmp/meet"); l.listen()
threading.Thread(target=lambda: globals().update(peer=l.accept()[0]) or socket.send_fds(peer, [b"x"], [memory, r, f])).start()`, Answer: `
shared[0:4] = b"held"; os.write(w, b"piped"); peer.send(b"sent"); os.read(f, 2)
return "done"`}.Program())
	first.hear(t, "primed")
	second := converse(t, source, 0, "python3", "-c", checkpointtest.Kind{Before: `
c = socket.socket(socket.AF_UNIX); c.connect("/tmp/meet")
_, (memory, r, f), _, _ = socket.recv_fds(c, 1, 3)
shared = mmap.mmap(memory, 4096)`, Answer: `
return shared[0:4], os.read(r, 9), c.recv(9), os.read(f, 2)`}.Program())
	second.hear(t, "primed")
	children := fork(t, source, 2)
	for _, instance := range []sandbox.Instance{children[0], fork(t, children[1], 1)[0], source} {
		a, b := first, second
		if instance != source {
			a, b = converse(t, instance, first.pid), converse(t, instance, second.pid)
		}
		a.say(t, "?")
		a.hear(t, "done")
		b.say(t, "?")
		b.hear(t, "(b'held', b'piped', b'sent', b'cd')")
	}
}

// TestForkOfAStoppedProcess has the child's be stopped, too.
func TestForkOfAStoppedProcess(t *testing.T) {
	needRoot(t, "fork of everything that a process may hold")
	driver, _ := newDriverAhead(t, 8)
	source := create(t, driver, sandbox.Spec{})
	python := converse(t, source, 0, "python3", "-c", checkpointtest.Kind{Before: `
threading.Thread(target=threading.Event().wait, daemon=True).start()`, Answer: `
os.kill(os.getpid(), signal.SIGSTOP)
return "continued"`}.Program())
	python.hear(t, "primed")
	python.say(t, "?")
	state := fmt.Sprintf("sed 's/.*) //;s/ .*//' /proc/%d/stat", python.pid)
	if !eventually(5*time.Second, func() bool { return sh(t, source, state) == "T" }) {
		t.Fatal("it does not stop")
	}
	child := fork(t, source, 1)[0]
	for _, instance := range []sandbox.Instance{child, source} {
		// It stops on its way out of the kernel.
		if !eventually(5*time.Second, func() bool { return sh(t, instance, state) == "T" }) {
			t.Errorf("it is in the state %q", sh(t, instance, state))
		}
		c := python
		if instance != source {
			c = converse(t, instance, python.pid)
		}
		sh(t, instance, fmt.Sprintf("kill -CONT %d", python.pid))
		c.hear(t, "continued")
	}
}

// TestForkOfChangedText forks a program that changes its own text, some of which is
// lent while it is asked.
func TestForkOfChangedText(t *testing.T) {
	needRoot(t, "fork of such cells")
	driver, _ := newDriverAhead(t, 8)
	source := create(t, driver, sandbox.Spec{})
	c := converse(t, source, 0, program(t, source, "fork_text"))
	c.hear(t, "primed")
	for n := range 6 {
		line, want := "?", fmt.Sprintf("%c", 'a'+n/2)
		if n%2 == 0 && n > 0 {
			line = "!"
		}
		c.say(t, line)
		c.hear(t, want)
		child := converse(t, fork(t, source, 1)[0], c.pid)
		child.say(t, "?")
		child.hear(t, want)
	}
}

// TestForkWithinASequence forks a program of which a thread is in the middle of a
// restartable sequence.
func TestForkWithinASequence(t *testing.T) {
	needRoot(t, "fork of such cells")
	driver, _ := newDriverAhead(t, 8)
	source := create(t, driver, sandbox.Spec{})
	c := converse(t, source, 0, program(t, source, "fork_rseq"))
	if line, err := c.lines.ReadString('\n'); line == "none\n" {
		t.Skip("the C library of this host has no restartable sequences")
	} else if err != nil || line != "primed\n" {
		t.Fatalf("it says %q, %v", line, err)
	}
	for range 5 {
		child := converse(t, fork(t, source, 1)[0], c.pid)
		child.say(t, "?")
		child.hear(t, "whole")
		c.say(t, "?")
		c.hear(t, "whole")
	}
}

// TestForkedSocketsAreTheChilds sends from sockets of a child to names of the
// host's net namespace, where they do not belong.
func TestForkedSocketsAreTheChilds(t *testing.T) {
	needRoot(t, "fork of everything that a process may hold")
	name := fmt.Sprintf("\x00aether-test-%d", time.Now().UnixNano())
	host, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: "@" + name[1:], Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer host.Close()
	driver, _ := newDriverAhead(t, 8)
	source := create(t, driver, sandbox.Spec{})
	python := converse(t, source, 0, "python3", "-c", checkpointtest.Kind{Before: `
a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
u = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
i = socket.socket()
def attempt(f):
    try: f(); return "reached"
    except OSError as e: return e.strerror`, Answer: fmt.Sprintf(`
name = "\0%s"
return attempt(lambda: u.sendto(b"x", name)), attempt(lambda: b.connect(name))`, name[1:])}.Program())
	python.hear(t, "primed")
	child := converse(t, fork(t, source, 1)[0], python.pid)
	child.say(t, "?")
	line, err := child.lines.ReadString('\n')
	if err != nil || !strings.HasPrefix(line, "('Connection refused', 'Connection refused')") {
		t.Errorf("it says %q, %v", line, err)
	}
}

// converseOnTerminal is converse for a command on a terminal, or connects to one.
func converseOnTerminal(t *testing.T, instance sandbox.Instance, pid int, command ...string) *conversation {
	t.Helper()
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	cmd := guest.Cmd{Stdin: inR, Stdout: outW, Terminal: &guest.Size{Cols: 91, Rows: 17}}
	var running *guest.Running
	var err error
	if pid == 0 {
		cmd.Path, cmd.Args = command[0], command[1:]
		running, err = client(t, instance).Start(t.Context(), cmd)
	} else {
		running, err = client(t, instance).Connect(t.Context(), pid, cmd)
	}
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		_, err := running.Wait()
		outW.CloseWithError(err)
	}()
	t.Cleanup(func() { inW.Close(); outR.Close(); running.Close() })
	return &conversation{inW, bufio.NewReader(outR), running.Pid()}
}

// TestForkOfATerminal forks a program that reads from its terminal, and has it
// open once more by the name that every process has for its own. In a child that
// must not be the terminal of this program.
func TestForkOfATerminal(t *testing.T) {
	needRoot(t, "fork of everything that a process may hold")
	driver, _ := newDriverAhead(t, 8)
	source := create(t, driver, sandbox.Spec{})
	k := checkpointtest.Kind{Before: `
import termios
settings = termios.tcgetattr(0); settings[3] &= ~termios.ECHO; settings[1] &= ~termios.OPOST; termios.tcsetattr(0, termios.TCSANOW, settings)
own = os.open("/dev/tty", os.O_RDWR)`, Answer: `
os.write(own, b"by its own name\n")
return os.ttyname(0), os.get_terminal_size(), os.isatty(own), os.tcgetpgrp(0) == os.getpgrp()`}
	python := converseOnTerminal(t, source, 0, "python3", "-c", k.Program())
	python.hear(t, "primed")
	child := fork(t, source, 1)[0]
	grandchild := fork(t, child, 1)[0]
	for _, instance := range []sandbox.Instance{grandchild, child, source} {
		c := python
		if instance != source {
			c = converseOnTerminal(t, instance, python.pid)
		}
		c.say(t, "?")
		c.hear(t, "by its own name")
		c.hear(t, "('/dev/pts/0', os.terminal_size(columns=91, lines=17), True, True)")
	}
}

// TestForkLeavesNothingOfWhatIsHeld forks a process that holds one of many kinds
// again and again, and in between one that is refused.
func TestForkLeavesNothingOfWhatIsHeld(t *testing.T) {
	needRoot(t, "fork of everything that a process may hold")
	driver, runDir := newDriver(t)
	source := create(t, driver, sandbox.Spec{})
	python := converse(t, source, 0, "python3", "-c", checkpointtest.Kind{Before: `
a, b = socket.socketpair(); a.send(b"x"); l = socket.socket(); l.bind(("127.0.0.1", 80 if os.geteuid() == 0 else 8080)); l.listen()
m = os.memfd_create("m"); os.write(m, b"x" * 100000); s = mmap.mmap(-1, 1 << 20); s[0] = 1
f = os.open("/tmp/gone", os.O_RDWR | os.O_CREAT); os.unlink("/tmp/gone"); z = os.open("/dev/zero", os.O_RDONLY)
r, w = os.pipe(); os.write(w, b"x"); p = select.epoll(); p.register(r, select.EPOLLIN)
toggle = []`, Answer: `
if toggle: os.close(toggle.pop())
else: toggle.append(call(libc.inotify_init()))
return len(toggle)`}.Program())
	python.hear(t, "primed")
	turn := func() {
		children, err := source.(sandbox.Forker).Fork(t.Context(), make([]sandbox.Spec, 2))
		if err != nil {
			t.Fatal(err)
		}
		for _, child := range children {
			destroy(t, child)
		}
		python.say(t, "?")
		python.hear(t, "1")
		if _, err := source.(sandbox.Forker).Fork(t.Context(), make([]sandbox.Spec, 2)); err == nil {
			t.Fatal("inotify was forked")
		}
		python.say(t, "?")
		python.hear(t, "0")
	}
	for range 3 {
		turn()
	}
	before := takeCensus(t, runDir)
	for range few(20) {
		turn()
	}
	wantNoGrowth(t, before, runDir)
}
