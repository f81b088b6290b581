package storedir

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// prepareAs makes the test binary prepare a directory, and dialAs connect to a socket
// and send something, and print how it went.
const (
	prepareAs = "STOREDIR_TEST_PREPARE"
	dialAs    = "STOREDIR_TEST_DIAL"
)

const victim, attacker = 12345, 54321

// as runs the test binary as a user.
func as(t *testing.T, uid uint32, program, variable, value string) string {
	t.Helper()
	cmd := exec.Command(program)
	cmd.Env, cmd.Dir = []string{variable + "=" + value}, "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return string(out)
}

func init() {
	roles[prepareAs] = func(dir string) { reply(Prepare(dir)) }
	roles[dialAs] = func(socket string) {
		conn, err := Dial(context.Background(), socket)
		if err == nil {
			_, err = io.WriteString(conn, "secret")
		}
		reply(err)
	}
	roles[listenVariable] = func(socket string) {
		listener, err := net.Listen("unix", socket)
		if err == nil {
			err = os.Chmod(socket, 0o666)
		}
		if err != nil {
			reply(err)
		}
		fmt.Println("listening")
		conn, err := listener.Accept()
		if err == nil {
			_, _ = io.Copy(os.Stdout, conn)
		}
		os.Exit(0)
	}
}

func reply(err error) {
	if err != nil {
		fmt.Println("refused:", err)
		os.Exit(0)
	}
	fmt.Println("ok")
	os.Exit(0)
}

// plant is one step of a path: its owner, its mode, and where it leads if it is a link.
type plant struct {
	name string
	uid  int
	mode os.FileMode
	link string
}

// TestPlantedDirectories has another user make what this one looks for, in a directory
// where everybody may write.
func TestPlantedDirectories(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can be two users")
	}
	for name, c := range map[string]struct {
		steps []plant
		good  bool
	}{
		"nothing":                    {nil, true},
		"ours":                       {[]plant{{"s", victim, 0o711, ""}}, true},
		"ours, all of it":            {[]plant{{"s", victim, 0o711, ""}, {"s/run", victim, 0o700, ""}}, true},
		"ours, with a private group": {[]plant{{"s", victim, 0o770, ""}}, true},
		"theirs":                     {[]plant{{"s", attacker, 0o755, ""}}, false},
		"theirs, open to all":        {[]plant{{"s", attacker, 0o777, ""}}, false},
		"theirs, with ours inside":   {[]plant{{"s", attacker, 0o777, ""}, {"s/run", victim, 0o700, ""}}, false},
		"theirs, sticky":             {[]plant{{"s", attacker, os.ModeSticky | 0o777, ""}, {"s/run", victim, 0o700, ""}}, false},
		"ours, open to all":          {[]plant{{"s", victim, 0o777, ""}, {"s/run", victim, 0o700, ""}}, false},
		"root's, open to all":        {[]plant{{"s", 0, 0o777, ""}, {"s/run", victim, 0o700, ""}}, false},
		"root's, sticky":             {[]plant{{"s", 0, os.ModeSticky | 0o777, ""}, {"s/run", victim, 0o700, ""}}, true},
		"their link to ours":         {[]plant{{"real", victim, 0o711, ""}, {"s", attacker, 0, "real"}}, false},
		"our link to ours":           {[]plant{{"real", victim, 0o711, ""}, {"s", victim, 0, "real"}}, true},
		"our link to theirs":         {[]plant{{"real", attacker, 0o755, ""}, {"s", victim, 0, "real"}}, false},
		"our link through theirs":    {[]plant{{"real", victim, 0o711, ""}, {"way", attacker, 0, "real"}, {"s", victim, 0, "way"}}, false},
		"a loop":                     {[]plant{{"s", victim, 0, "s"}}, false},
		"a file":                     {[]plant{{"s/", victim, 0o600, ""}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			base, program := market(t)
			for _, p := range c.steps {
				plantStep(t, base, p)
			}
			got := as(t, victim, program, prepareAs, filepath.Join(base, "s", "run"))
			if strings.HasPrefix(got, "ok") != c.good {
				t.Errorf("got %s", got)
			}
			if strings.Contains(got, "refused") && strings.Contains(name, "their") && !strings.Contains(got, "AETHER_STATE_DIR") {
				t.Errorf("no remedy: %s", got)
			}
		})
	}
}

// market is a directory as /tmp is, and a copy of the test binary that all may run.
func market(t *testing.T) (dir, program string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "market")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, os.ModeSticky|0o777); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return dir, copyOf(t, self, dir)
}

func plantStep(t *testing.T, base string, p plant) {
	t.Helper()
	path := filepath.Join(base, p.name)
	var err error
	switch {
	case p.link != "":
		err = os.Symlink(p.link, path)
	case strings.HasSuffix(p.name, "/"):
		err = os.WriteFile(path, nil, 0o600)
	default:
		err = os.Mkdir(path, 0o700)
	}
	if err == nil {
		err = os.Lchown(path, p.uid, p.uid)
	}
	if err == nil && p.link == "" {
		err = os.Chmod(path, p.mode)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestPlantedSocket: nothing is said to a socket at which another user listens.
func TestPlantedSocket(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can be two users")
	}
	for name, c := range map[string]struct {
		as   uint32
		good bool
	}{"theirs": {attacker, false}, "ours": {victim, true}, "root's": {0, true}} {
		t.Run(name, func(t *testing.T) {
			base, program := market(t)
			plantStep(t, base, plant{"s", victim, 0o777 | os.ModeSticky, ""})
			socket := filepath.Join(base, "s", "socket")
			heard := listenAs(t, c.as, program, socket)
			if err := os.Lchown(socket, victim, victim); err != nil { // as if its place were good
				t.Fatal(err)
			}
			got := as(t, victim, program, dialAs, socket)
			if strings.HasPrefix(got, "ok") != c.good {
				t.Errorf("got %s", got)
			}
			if said := heard(); (said == "secret") != c.good {
				t.Errorf("the other end heard %q", said)
			}
		})
	}
}

const listenVariable = "STOREDIR_TEST_LISTEN"

// listenAs has a user listen at a socket; heard gives what the first who comes says.
func listenAs(t *testing.T, uid uint32, program, socket string) (heard func() string) {
	t.Helper()
	cmd := exec.Command(program)
	cmd.Env, cmd.Dir = []string{listenVariable + "=" + socket}, "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 100)
	if n, err := out.Read(buf); err != nil || string(buf[:n]) != "listening\n" {
		t.Fatalf("%q, %v", buf[:n], err)
	}
	return func() string {
		n, _ := out.Read(buf)
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
		return string(buf[:n])
	}
}
