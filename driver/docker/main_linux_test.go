package docker_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"aether/driver/daemon"
	"aether/driver/daemon/daemontest"
	"aether/driver/docker"
	"aether/network/networktest"
	"aether/sandbox"
)

const (
	// sharedVariable tells an ordinary user to use the daemon that root started.
	sharedVariable = "AETHER_DOCKER_TEST_SHARED"
	// pace is of a driver that makes a sandbox in less than half a second.
	pace = 4
)

func newDriver(dir string) sandbox.Driver {
	return docker.New(docker.Options{RunDir: dir, Images: daemontest.Images, Network: networktest.Service()})
}

func TestMain(m *testing.M) { os.Exit(daemontest.Main(m, newDriver, lacks, start)) }

func lacks() string {
	if os.Getenv(sharedVariable) != "" {
		return ""
	}
	if os.Geteuid() != 0 {
		return "a Docker daemon of its own needs root"
	}
	if _, err := exec.LookPath("dockerd"); err != nil {
		return "dockerd is not in PATH (install the package docker.io)"
	}
	return ""
}

func start(dir string) (stop func(), err error) {
	if os.Getenv(sharedVariable) != "" {
		return func() {}, nil // of the daemon that DOCKER_HOST names
	}
	socket, stop, err := startDaemon(dir)
	if err != nil {
		return nil, err
	}
	return stop, os.Setenv("DOCKER_HOST", "unix://"+socket)
}

// startDaemon starts a daemon that shares nothing with one that may be in use on
// this host.
func startDaemon(dir string) (socket string, stop func(), err error) {
	socket = filepath.Join(dir, "docker.sock")
	cmd := exec.Command("dockerd", "--data-root", filepath.Join(dir, "data"), "--exec-root", filepath.Join(dir, "exec"), "--pidfile", filepath.Join(dir, "pid"),
		"--host", "unix://"+socket, "--iptables=false", "--ip6tables=false", "--ip-forward=false", "--bridge=none", "--userland-proxy=false")
	daemon, err := daemontest.Start(cmd, filepath.Join(dir, "log"), syscall.SIGTERM, func() error { return awaitDaemon(socket) })
	if err != nil {
		return "", nil, err
	}
	return socket, func() {
		daemon.End(syscall.SIGTERM)
		_ = exec.Command("umount", "-l", filepath.Join(dir, "exec", "netns", "default")).Run() // which it leaves
	}, nil
}

func awaitDaemon(socket string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	for {
		err := ask(ctx, socket, "/_ping", nil)
		if err == nil || ctx.Err() != nil {
			return err
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// containers lists what the daemon holds of sandboxes.
func containers() (list []string, err error) {
	var found []struct {
		Names []string
		State string
	}
	err = ask(context.Background(), strings.TrimPrefix(os.Getenv("DOCKER_HOST"), "unix://"), "/containers/json?all=1", &found)
	for _, c := range found {
		list = append(list, strings.Join(c.Names, " ")+" "+c.State)
	}
	return list, err
}

// ask gets something of a daemon, past the driver.
func ask(ctx context.Context, socket, path string, out any) error {
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
