package drivertest

import (
	"net"
	"os"
	"strconv"
	"strings"
	"testing"

	"aether/sandbox"
)

func (s *suite) isolation() []test {
	return []test{
		{"no network", s.noNetwork}, {"host's loopback", s.hostLoopback}, {"own loopback", s.ownLoopback},
		{"processes of the host", s.hostProcesses}, {"files of the host", s.hostFiles}, {"two sandboxes", s.twoSandboxes},
		{"no way to be more", s.noPrivileges},
	}
}

// noNetwork: no device but the loopback, and no route.
func (s *suite) noNetwork(t *testing.T) {
	b := s.make(t, sandbox.Spec{})
	if got := b.sh(t, "sed -n 's/^ *\\([^:]*\\):.*/\\1/p' /proc/net/dev | grep -vx lo || true"); got != "" {
		t.Errorf("it has the devices %q", got)
	}
	if got := b.sh(t, "tail -n +2 /proc/net/route"); got != "" {
		t.Errorf("it has routes: %s", got)
	}
}

// hostLoopback: a port of the host cannot be reached.
func (s *suite) hostLoopback(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	reached := make(chan struct{})
	go func() {
		if conn, err := listener.Accept(); err == nil {
			conn.Close()
			close(reached)
		}
	}()
	b := s.make(t, sandbox.Spec{})
	port := strconv.Itoa(listener.Addr().(*net.TCPAddr).Port)
	out, err := exec(s.patient(t), b.Client, connectTo(port))
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-reached:
		t.Error("a port of the host was reached")
	default:
	}
	if out.Code == 0 {
		t.Errorf("a connection was made: %+v", out)
	}
}

// ownLoopback: programs inside can talk to each other.
func (s *suite) ownLoopback(t *testing.T) {
	b := s.make(t, sandbox.Spec{})
	if b.sh(t, "command -v python3 || true") == "" {
		t.Skip("the image has no python3 to listen with")
	}
	got := b.sh(t, `python3 -c '
import socket
l = socket.create_server(("127.0.0.1", 0))
c = socket.create_connection(l.getsockname(), 60)
c.sendall(b"hello")
print(l.accept()[0].recv(5).decode())'`)
	if got != "hello" {
		t.Errorf("got %q", got)
	}
}

func (s *suite) hostProcesses(t *testing.T) {
	b := s.make(t, sandbox.Spec{})
	out := b.sh(t, "cat /proc/[0-9]*/cmdline | tr '\\0' '\\n'")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(out, self) {
		t.Errorf("this very program is seen inside: %q", out)
	}
	if got := b.sh(t, "ls -d /proc/[0-9]* | wc -l"); len(got) > 2 {
		t.Errorf("a sandbox that runs one command sees %s processes", got)
	}
}

// hostFiles: neither this test's files nor the secrets of the host are seen.
func (s *suite) hostFiles(t *testing.T) {
	secret := t.TempDir() + "/secret"
	if err := os.WriteFile(secret, []byte("secret"), 0o644); err != nil {
		t.Fatal(err)
	}
	b := s.make(t, sandbox.Spec{})
	b.sh(t, "test ! -e "+secret)
	b.sh(t, "test ! -r /etc/shadow || ! grep -q '^root:[$]' /etc/shadow")
	out, err := exec(s.patient(t), b.Client, shell("echo x > /proc/sysrq-trigger || echo x > /proc/sys/kernel/core_pattern"))
	if s.driver.Info().Boundary == sandbox.ProcessBoundary && (err != nil || out.Code == 0) {
		t.Errorf("the host's kernel takes orders: %+v, %v", out, err)
	}
}

func (s *suite) twoSandboxes(t *testing.T) {
	one, other := s.make(t, sandbox.Spec{}), s.make(t, sandbox.Spec{})
	if one.ID() == other.ID() {
		t.Errorf("both are %s", one.ID())
	}
	one.sh(t, "echo secret > /tmp/secret; (exec sleep 4242 >/dev/null 2>&1 &)")
	other.sh(t, "test ! -e /tmp/secret")
	if n := other.sleepers(t, "4242"); n != 0 {
		t.Errorf("%d processes of another sandbox are seen", n)
	}
	// Its shell may not have become the other program yet.
	if !s.eventually(func() bool { return one.sleepers(t, "4242") == 1 }) {
		t.Error("its own is not seen")
	}
	exec(s.patient(t), other.Client, shell("kill -9 -1"))
	if n := one.sleepers(t, "4242"); n != 1 {
		t.Error("one sandbox killed a process of the other")
	}
	other.destroy(t)
	one.sh(t, "test -e /tmp/secret")
}

// noPrivileges: what a command is, it stays.
func (s *suite) noPrivileges(t *testing.T) {
	if s.driver.Info().Boundary > sandbox.ProcessBoundary {
		t.Skip("inside a machine of its own a user may become root")
	}
	b := s.make(t, sandbox.Spec{})
	if got := b.sh(t, "grep NoNewPrivs /proc/self/status | tr -dc 01"); got != "1" {
		t.Errorf("new privileges may be gained: %q", got)
	}
	for _, script := range []string{"mount -t tmpfs none /mnt", "mknod /tmp/disk b 8 0", "chroot / true && test $(id -u) != 0"} {
		out, err := exec(s.patient(t), b.Client, shell(script))
		if err != nil || out.Code == 0 {
			t.Errorf("%s: %+v, %v", script, out, err)
		}
	}
}
