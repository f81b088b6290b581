package docker_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/moby/moby/client"

	"aether/driver/daemon/daemontest"
	"aether/driver/docker"
	"aether/sandbox"
)

const (
	// sharedVariable tells an ordinary user to use the daemon that root started.
	sharedVariable = "AETHER_DOCKER_TEST_SHARED"
	// pace is of a driver that makes a sandbox in less than half a second.
	pace = 4
)

func newDriver(dir string) sandbox.Driver {
	return docker.New(docker.Options{RunDir: dir, Images: daemontest.Images})
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
	return stop, os.Setenv(client.EnvOverrideHost, "unix://"+socket)
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
		api, err := client.New(client.WithHost("unix://" + socket))
		if err == nil {
			_, err = api.Ping(ctx, client.PingOptions{})
			_ = api.Close()
		}
		if err == nil || ctx.Err() != nil {
			return err
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// containers lists what the daemon holds of sandboxes.
func containers() (list []string, err error) {
	api, err := client.New(client.FromEnv)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, api.Close()) }()
	found, err := api.ContainerList(context.Background(), client.ContainerListOptions{All: true})
	for _, c := range found.Items {
		list = append(list, strings.Join(c.Names, " ")+" "+string(c.State))
	}
	return list, err
}
