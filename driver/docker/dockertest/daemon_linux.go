package dockertest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"aether/driver/daemon"
	"aether/driver/daemon/daemontest"
)

// Lacks says why this host can have no daemon, or nothing.
func Lacks() string {
	if os.Geteuid() != 0 {
		return "a Docker daemon of its own needs root"
	}
	if _, err := exec.LookPath("dockerd"); err != nil {
		return "dockerd is not in PATH (install the package docker.io)"
	}
	return ""
}

// Start starts a daemon that keeps everything in a directory. It ends with the calling thread,
// which the caller therefore locks.
func Start(dir string) (socket string, stop func(), err error) {
	socket = filepath.Join(dir, "docker.sock")
	cmd := exec.Command("dockerd", "--data-root", filepath.Join(dir, "data"), "--exec-root", filepath.Join(dir, "exec"), "--pidfile", filepath.Join(dir, "pid"),
		"--host", "unix://"+socket, "--iptables=false", "--ip6tables=false", "--ip-forward=false", "--bridge=none", "--userland-proxy=false")
	daemon, err := daemontest.Start(cmd, filepath.Join(dir, "log"), syscall.SIGTERM, func() error { return await(socket) })
	if err != nil {
		return "", nil, err
	}
	return socket, func() {
		daemon.End(syscall.SIGTERM)
		_ = exec.Command("umount", "-l", filepath.Join(dir, "exec", "netns", "default")).Run() // which it leaves
	}, nil
}

func await(socket string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	for {
		err := Ask(ctx, socket, "/_ping", nil)
		if err == nil || ctx.Err() != nil {
			return err
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// Ask gets something of a daemon, past the driver.
func Ask(ctx context.Context, socket, path string, out any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://docker"+path, nil)
	if err != nil {
		return err
	}
	answer, err := daemon.HTTP(socket).Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", path, answer.Status)
	}
	if out == nil {
		return nil
	}
	return json.NewDecoder(answer.Body).Decode(out)
}
