package netdev

import (
	"errors"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// elsewhere starts a process in new namespaces, in which a shell makes more of them.
func elsewhere(t *testing.T, script string) int {
	t.Helper()
	cmd := exec.Command("sh", "-c", script)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER | unix.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}, GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}}
	said, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Skipf("no user and net namespaces here: %v", err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	if _, err := said.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	return cmd.Process.Pid
}

func always() error { return nil }

// TestNamespaceOfAnother: a device is made in the namespace of a process whose user
// namespace is not the one that owns it.
func TestNamespaceOfAnother(t *testing.T) {
	for name, script := range map[string]string{
		"its own user namespace": "echo; exec sleep 60",
		"one more below":         "exec unshare --user sh -c 'echo; exec sleep 60'",
	} {
		t.Run(name, func(t *testing.T) {
			n, err := NamespaceOf(elsewhere(t, script), always)
			if err != nil {
				t.Fatal(err)
			}
			defer n.Close()
			tap := Tap{Name: "tap0", Address: netip.MustParseAddr("198.18.0.7"), Gateway: netip.MustParseAddr("198.18.0.1"), MTU: 1500, Hardware: HardwareAddr{2, 0, 0, 0, 0, 7}}
			file, err := tap.Open(n.Way())
			if err != nil {
				t.Fatal(err)
			}
			if err := file.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestNamespaceOfThisProgram: nothing is ever made on the host itself.
func TestNamespaceOfThisProgram(t *testing.T) {
	if n, err := NamespaceOf(os.Getpid(), always); !errors.Is(err, errOwn) {
		t.Errorf("%v, %v", n, err)
	}
	cmd := exec.Command("sleep", "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	if n, err := NamespaceOf(cmd.Process.Pid, always); !errors.Is(err, errOwn) {
		t.Errorf("%v, %v", n, err)
	}
}

// TestNamespaceOfWhomever: a process that is not the one that was meant has nothing made
// for it.
func TestNamespaceOfWhomever(t *testing.T) {
	other := errors.New("another")
	if n, err := NamespaceOf(elsewhere(t, "echo; exec sleep 60"), func() error { return other }); !errors.Is(err, other) {
		t.Errorf("%v, %v", n, err)
	}
	if n, err := OpenNamespace("/proc/self/ns/uts"); err == nil || !strings.Contains(err.Error(), "no net namespace") {
		t.Errorf("%v, %v", n, err)
	}
}
