package containerd_test

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

	"github.com/containerd/containerd/api/services/containers/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	"aether/driver/containerd"
	"aether/driver/drivertest"
	"aether/guest/inside/insidetest"
	"aether/image"
	"aether/sandbox"
)

const (
	// storeVariable and addressVariable tell a program that plays a part where the
	// images are and where containerd is, and shimVariable which shim it uses.
	storeVariable   = "AETHER_CONTAINERD_TEST_IMAGES"
	shimVariable    = "AETHER_CONTAINERD_TEST_SHIM"
	addressVariable = "CONTAINERD_ADDRESS"
	// pace is of a driver that makes a sandbox in less than a quarter of a second.
	pace = 3
)

// missing is why there is no daemon to test with, or empty.
var missing string

func newDriver(dir string) sandbox.Driver {
	return containerd.New(containerd.Options{RunDir: dir, Images: testImages, Shim: os.Getenv(shimVariable)})
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
	dir, err := os.MkdirTemp("", "aether-containerd-")
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
	if err := os.Setenv(storeVariable, filepath.Join(dir, "images")); err != nil {
		return nil, err
	}
	if err := insidetest.Build(dir); err != nil {
		return nil, err
	}
	if os.Geteuid() != 0 {
		missing = "a containerd of its own needs root"
	}
	for _, program := range []string{"containerd", "containerd-shim-runc-v2", "runc"} {
		if _, err := exec.LookPath(program); err != nil {
			missing = program + " is not in PATH (install the packages containerd and runc)"
		}
	}
	if missing != "" {
		return func() {}, nil
	}
	runtime.LockOSThread() // with which the daemon dies
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
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		return "", nil, err
	}
	defer log.Close()
	cmd := exec.Command("containerd", "--config", config)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	if err := cmd.Start(); err != nil {
		return "", nil, err
	}
	stop = sync.OnceFunc(func() { stopDaemon(cmd) })
	if _, err := list(socket); err != nil {
		stop()
		text, _ := os.ReadFile(log.Name())
		return "", nil, fmt.Errorf("containerd: %w\n%s", err, text[max(0, len(text)-2000):])
	}
	return socket, stop, nil
}

func stopDaemon(cmd *exec.Cmd) {
	_ = cmd.Process.Signal(syscall.SIGTERM)
	killer := time.AfterFunc(20*time.Second, func() { _ = cmd.Process.Kill() })
	defer killer.Stop()
	_ = cmd.Wait()
}

func needDaemon(t *testing.T) {
	t.Helper()
	if missing != "" {
		t.Skip(missing)
	}
}

// held lists what the daemon holds of sandboxes.
func held() ([]string, error) { return list(os.Getenv(addressVariable)) }

// list asks a daemon, as soon as it is up, for its containers.
func list(socket string) (names []string, err error) {
	conn, err := grpc.NewClient("unix:"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	ctx = metadata.AppendToOutgoingContext(ctx, "containerd-namespace", "aether")
	found, err := containers.NewContainersClient(conn).List(ctx, &containers.ListContainersRequest{}, grpc.WaitForReady(true))
	for _, c := range found.GetContainers() {
		names = append(names, c.GetID()+" of "+strings.TrimSpace(c.GetLabels()["aether.owner"]))
	}
	return names, err
}
