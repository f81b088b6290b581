package containerd_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"aether/driver/containerd"
	"aether/driver/daemon/daemontest"
	"aether/network/networktest"
	"aether/sandbox"
)

const (
	// addressVariable and shimVariable tell a program that plays a part where
	// containerd is, and which shim it uses.
	addressVariable = "CONTAINERD_ADDRESS"
	shimVariable    = "AETHER_CONTAINERD_TEST_SHIM"
	// pace is of a driver that makes a sandbox in less than a quarter of a second.
	pace = 3
)

func newDriver(dir string) sandbox.Driver {
	return containerd.New(containerd.Options{RunDir: dir, Images: daemontest.Images, Network: networktest.Service(), Shim: os.Getenv(shimVariable)})
}

func TestMain(m *testing.M) { os.Exit(daemontest.Main(m, newDriver, lacks, start)) }

func lacks() string {
	for _, program := range []string{"containerd", "ctr", "containerd-shim-runc-v2", "runc"} {
		if _, err := exec.LookPath(program); err != nil {
			return program + " is not in PATH (install the packages containerd and runc)"
		}
	}
	if os.Geteuid() != 0 {
		return "a containerd of its own needs root"
	}
	return ""
}

func start(dir string) (stop func(), err error) {
	socket, stop, err := startDaemon(dir)
	if err != nil {
		return nil, err
	}
	return stop, os.Setenv(addressVariable, socket)
}

const daemonConfig = `version = 2
root = %q
state = %q
disabled_plugins = ["io.containerd.grpc.v1.cri"]
[grpc]
address = %q
`

// startDaemon starts a daemon that shares nothing with one that may be in use on
// this host.
func startDaemon(dir string) (socket string, stop func(), err error) {
	socket = filepath.Join(dir, "sock")
	config := filepath.Join(dir, "config.toml")
	text := fmt.Sprintf(daemonConfig, filepath.Join(dir, "root"), filepath.Join(dir, "state"), socket)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return "", nil, err
	}
	ready := func() error { _, err := list(socket); return err }
	daemon, err := daemontest.Start(exec.Command("containerd", "--config", config), filepath.Join(dir, "log"), syscall.SIGTERM, ready)
	if err != nil {
		return "", nil, err
	}
	return socket, func() { daemon.End(syscall.SIGTERM) }, nil
}

// held lists what the daemon holds of sandboxes.
func held() ([]string, error) { return list(os.Getenv(addressVariable)) }

// list asks a daemon, as soon as it is up, for its containers. It asks with
// containerd's own client, past the driver.
func list(socket string) (names []string, err error) {
	var out []byte
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(50 * time.Millisecond) {
		if out, err = ctr(socket, "list", "--quiet"); err == nil || time.Now().After(deadline) {
			break
		}
	}
	for _, id := range strings.Fields(string(out)) {
		var about struct{ Labels map[string]string }
		text, failed := ctr(socket, "info", id)
		var said *exec.ExitError
		if errors.As(failed, &said) && strings.Contains(string(said.Stderr), "not found") {
			continue // it has gone meanwhile
		}
		if err = errors.Join(err, failed); failed == nil {
			err = errors.Join(err, json.Unmarshal(text, &about))
		}
		names = append(names, id+" of "+strings.TrimSpace(about.Labels["aether.owner"]))
	}
	return names, err
}

func ctr(socket string, args ...string) ([]byte, error) {
	return exec.Command("ctr", append([]string{"--address", socket, "--namespace", "aether", "containers"}, args...)...).Output()
}
