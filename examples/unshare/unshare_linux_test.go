package unshare

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"aether/driver/command"
	"aether/driver/command/commandtest"
	"aether/driver/drivertest"
	"aether/driver/guestagent"
	"aether/guest"
	"aether/sandbox"
)

// weakness is a variable with what the driver is to leave out, joined by |, so that
// the suite can show that it notices.
const weakness = "EXAMPLE_WEAKNESS"

// oneForAll has every sandbox be the same, which no line of the driver could.
const oneForAll = "one for all"

func newDriver(dir string) sandbox.Driver {
	opts := command.Options{RunDir: dir, Images: commandtest.Images}
	switch left := os.Getenv(weakness); left {
	case "":
	case oneForAll:
		return drivertest.OneForAll(New(opts))
	default:
		return command.New(weakSystem(strings.Split(left, "|")), opts)
	}
	return New(opts)
}

func weakSystem(left []string) command.System {
	s := system()
	s.Command = func(stage command.Stage, spec sandbox.Spec) (command.Command, error) {
		c, err := invoke(stage, spec)
		for _, out := range left {
			c = weaken(c, out)
		}
		return c, err
	}
	return s
}

// weaken leaves an argument, or a line of a script, out.
func weaken(c command.Command, out string) command.Command {
	c.Args = slices.DeleteFunc(c.Args, func(arg string) bool { return arg == out })
	for i, arg := range c.Args {
		c.Args[i] = without(arg, out)
	}
	c.Prepare = without(c.Prepare, out)
	return c
}

func without(script, line string) string {
	lines := slices.DeleteFunc(strings.Split(script, "\n"), func(l string) bool { return l == line })
	return strings.Join(lines, "\n")
}

func TestMain(m *testing.M) { os.Exit(commandtest.Main(m, newDriver, nil)) }

// needTools skips for what the host or the user lacks, and for nothing else: a
// driver that does not work must fail.
func needTools(t *testing.T) {
	t.Helper()
	if err := needs(); err != nil {
		t.Skip(err)
	}
}

func TestConformance(t *testing.T) {
	needTools(t)
	drivertest.Run(t, drivertest.Config{New: newDriver, Overhead: guestagent.Overhead,
		Weaknesses: drivertest.Weak("it has no system call filter", "asynchronous requests")})
}

// TestConformanceNotices: each line of the driver is there for a promise.
func TestConformanceNotices(t *testing.T) {
	needTools(t)
	for out, fails := range map[string][]string{
		"--net|ip link set lo up": {"isolation/no network", "isolation/host's loopback"},
		"ip link set lo up":       {"isolation/own loopback"},
		"--no-new-privs":          {"isolation/no way to be more"},
		"ln -s pts/ptmx dev/ptmx": {"terminals/size and input"},
		"--ipc":                   {"neighbours/System V objects", "neighbours/message queues"},
		oneForAll:                 {"neighbours/leases", "neighbours/keys", "neighbours/processes"},
	} {
		t.Run(out, func(t *testing.T) {
			if _, err := exec.LookPath("python3"); err != nil && slices.Contains(fails, "isolation/own loopback") {
				t.Skip("this host has no python3 to listen on the loopback with")
			}
			drivertest.WantFailures(t, "TestConformance", []string{weakness + "=" + out}, fails...)
		})
	}
}

func TestProbeSaysWhatIsMissing(t *testing.T) {
	needTools(t)
	commandtest.ProbeSaysWhatIsMissing(t, newDriver, "setpriv")
}

func TestHostNetworkIsRefused(t *testing.T) {
	needTools(t)
	driver := newDriver(t.TempDir())
	_, err := driver.Create(t.Context(), sandbox.Spec{Network: sandbox.Network{Mode: sandbox.HostNetwork}})
	if sandbox.ClassOf(err) != sandbox.Unsupported {
		t.Errorf("%v", err)
	}
	if err := driver.(sandbox.Closer).Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// escape is the way out of a chroot for whoever may call it, and then the ways
// that a new user namespace or a mount would open.
const escape = `cd /
mkdir -p /tmp/in
python3 -c '
import os
os.chroot("/tmp/in")
for _ in range(64): os.chdir("..")
os.chroot(".")
os.execv("/bin/sh", ["sh", "-c", "test ! -e $OUTSIDE && test -e /dev/.aether-guest"])' || echo escaped
unshare --user true 2>/dev/null && echo namespace
mount -t tmpfs none /mnt 2>/dev/null && echo mounted
(echo x >/dev/.aether-guest) 2>/dev/null && echo changed
true`

// TestRootStaysInside: a root inside has the right to chroot, and gains nothing.
func TestRootStaysInside(t *testing.T) {
	needTools(t)
	instance := commandtest.Create(t, newDriver(t.TempDir()), sandbox.Spec{})
	if got, _ := commandtest.Sh(t, instance, "command -v python3"); got == "" {
		t.Skip("the image has no python3 to call chroot with")
	}
	client := guest.NewClient(instance.Dial, guest.ClientOptions{User: "root"})
	defer client.Close()
	var out strings.Builder
	p, err := client.Start(t.Context(), guest.Cmd{Path: "sh", Args: []string{"-c", escape}, Env: map[string]string{"OUTSIDE": t.TempDir()}, Stdout: &out, Stderr: &out})
	if err != nil {
		t.Fatal(err)
	}
	if status, err := p.Wait(); err != nil || status.Code != 0 || out.Len() > 0 {
		t.Errorf("%+v, %v: %s", status, err, out.String())
	}
}

func TestOrdinaryUserIsTold(t *testing.T) { commandtest.OrdinaryUserIsTold(t, newDriver) }

func TestAgainAsOrdinaryUser(t *testing.T) { commandtest.AsOrdinaryUser(t, "^TestOrdinaryUserIsTold$") }
