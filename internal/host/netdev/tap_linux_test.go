package netdev

import (
	"net/netip"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// TestTap: a device in another process's namespaces, with its address, route and
// neighbour, whose packets come out here.
func TestTap(t *testing.T) {
	cmd := exec.Command("sleep", "60")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER | unix.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}, GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}}
	if err := cmd.Start(); err != nil {
		t.Skipf("no user and net namespaces here: %v", err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	pidfd, err := unix.PidfdOpen(cmd.Process.Pid, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(pidfd)
	tap := Tap{Name: "tap0", Address: netip.MustParseAddr("198.18.0.7"), Gateway: netip.MustParseAddr("198.18.0.1"), MTU: 65520,
		Hardware: HardwareAddr{2, 0, 0, 0, 0, 7}, GatewayHardware: HardwareAddr{2, 0, 0, 0, 0, 1}}
	file, err := tap.Open(By(pidfd, true))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	out, err := exec.Command("nsenter", "-t", strconv.Itoa(cmd.Process.Pid), "-U", "-n", "--preserve-credentials", "sh", "-c", "cat /proc/net/route /proc/net/arp /proc/net/dev; echo hello > /dev/udp/1.2.3.4/99 || true").CombinedOutput()
	t.Log(string(out), err)
	if !strings.Contains(string(out), "tap0") {
		t.Fatal(string(out))
	}
}
