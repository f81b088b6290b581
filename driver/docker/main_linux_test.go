package docker_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/moby/moby/client"

	"aether/driver/docker"
	"aether/driver/drivertest"
	"aether/guest/inside/insidetest"
	"aether/image"
	"aether/sandbox"
)

const (
	// storeVariable tells a program that plays a part where the images are.
	storeVariable = "AETHER_DOCKER_TEST_IMAGES"
	// sharedVariable tells an ordinary user to use the daemon that root started.
	sharedVariable = "AETHER_DOCKER_TEST_SHARED"
	// pace is of a driver that makes a sandbox in less than half a second.
	pace = 4
)

// missing is why there is no daemon to test with, or empty.
var missing string

func newDriver(dir string) sandbox.Driver {
	return docker.New(docker.Options{RunDir: dir, Images: testImages})
}

func testImages() (*image.Store, error) { return image.Open(os.Getenv(storeVariable)) }

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	if played, code := drivertest.Play(newDriver); played {
		return code
	}
	if played, code := playVictim(); played {
		return code
	}
	dir, err := os.MkdirTemp("", "aether-docker-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	stop, err := prepare(dir)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer stop()
	return m.Run()
}

func prepare(dir string) (stop func(), err error) {
	if err := os.Chmod(dir, 0o711); err != nil {
		return nil, err
	}
	if err := os.Setenv(storeVariable, filepath.Join(dir, "images")); err != nil {
		return nil, err
	}
	if err := insidetest.Build(dir); err != nil {
		return nil, err
	}
	if os.Getenv(sharedVariable) != "" {
		return func() {}, nil // of the daemon that DOCKER_HOST names
	}
	if os.Geteuid() != 0 {
		missing = "a Docker daemon of its own needs root"
	} else if _, err := exec.LookPath("dockerd"); err != nil {
		missing = "dockerd is not in PATH (install the package docker.io)"
	}
	if missing != "" {
		return func() {}, nil
	}
	runtime.LockOSThread() // with which the daemon dies
	socket, stop, err := startDaemon(dir)
	if err != nil {
		return nil, err
	}
	return stop, os.Setenv(client.EnvOverrideHost, "unix://"+socket)
}

// startDaemon starts a daemon that shares nothing with one that may be in use on
// this host.
func startDaemon(dir string) (socket string, stop func(), err error) {
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		return "", nil, err
	}
	defer log.Close()
	socket = filepath.Join(dir, "docker.sock")
	cmd := exec.Command("dockerd", "--data-root", filepath.Join(dir, "data"), "--exec-root", filepath.Join(dir, "exec"), "--pidfile", filepath.Join(dir, "pid"),
		"--host", "unix://"+socket, "--iptables=false", "--ip6tables=false", "--ip-forward=false", "--bridge=none", "--userland-proxy=false")
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	if err := cmd.Start(); err != nil {
		return "", nil, err
	}
	stop = sync.OnceFunc(func() {
		stopDaemon(cmd)
		_ = syscall.Unmount(filepath.Join(dir, "exec", "netns", "default"), syscall.MNT_DETACH) // which it leaves
	})
	if err := awaitDaemon(socket); err != nil {
		stop()
		text, _ := os.ReadFile(log.Name())
		return "", nil, fmt.Errorf("dockerd: %w\n%s", err, tail(string(text)))
	}
	return socket, stop, nil
}

func stopDaemon(cmd *exec.Cmd) {
	_ = cmd.Process.Signal(syscall.SIGTERM)
	killer := time.AfterFunc(20*time.Second, func() { _ = cmd.Process.Kill() })
	defer killer.Stop()
	_ = cmd.Wait()
}

func tail(text string) string { return text[max(0, len(text)-2000):] }

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

func needDaemon(t *testing.T) {
	t.Helper()
	if missing != "" {
		t.Skip(missing)
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
