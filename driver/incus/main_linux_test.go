package incus_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"aether/driver/drivertest"
	"aether/driver/incus"
	"aether/guest/inside/insidetest"
	"aether/image"
	"aether/sandbox"
)

const (
	// storeVariable tells a program that plays a part where the images are.
	storeVariable = "AETHER_INCUS_TEST_IMAGES"
	// socketVariable names the daemon's socket.
	socketVariable = "INCUS_SOCKET"
	// pace is of a driver that makes a sandbox in half a second.
	pace = 4
)

// missing is why there is no daemon to test with, or empty.
var missing string

func newDriver(dir string) sandbox.Driver {
	return incus.New(incus.Options{RunDir: dir, Images: testImages})
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
	dir, err := os.MkdirTemp("", "aether-incus-")
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
	if slices.Contains(os.Args, "-test.fuzzworker") {
		missing = "a worker of the fuzzer has no daemon"
	} else if os.Geteuid() != 0 {
		missing = "an Incus daemon of its own needs root"
	} else if program() == "" {
		missing = "incusd is not installed (install the package incus)"
	}
	if missing != "" {
		return func() {}, nil
	}
	runtime.LockOSThread() // with which the daemon dies
	d, err := startDaemon(filepath.Join(dir, "incus"))
	if err != nil {
		return nil, err
	}
	return d.stop, os.Setenv(socketVariable, d.socket)
}

// program is the daemon's, which packages keep out of PATH.
func program() string {
	for _, name := range []string{"incusd", "/usr/libexec/incus/incusd", "/usr/lib/incus/incusd", "/opt/incus/bin/incusd"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	return ""
}

// daemon is one that runs.
type daemon struct {
	cmd         *exec.Cmd
	dir, socket string
}

// startDaemon starts a daemon that shares nothing with one that may be in use on
// this host, except for the names of cgroups.
func startDaemon(dir string) (*daemon, error) {
	if err := os.MkdirAll(dir, 0o711); err != nil {
		return nil, err
	}
	log, err := os.Create(dir + ".log")
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.Command(program())
	cmd.Env = append(os.Environ(), socketVariable+"=", "INCUS_DIR="+dir, "PATH="+filepath.Dir(program())+":"+os.Getenv("PATH"))
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: endAll}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	d := &daemon{cmd: cmd, dir: dir, socket: filepath.Join(dir, "unix.socket")}
	if err := awaitDaemon(d.socket); err != nil {
		d.stop()
		text, _ := os.ReadFile(log.Name())
		return nil, fmt.Errorf("incusd: %w\n%s", err, text[max(0, len(text)-2000):])
	}
	return d, nil
}

// Signals on which a daemon ends: with its containers, and without them.
const (
	endAll   = syscall.SIGPWR
	endAlone = syscall.SIGTERM
)

func (d *daemon) signal(signal syscall.Signal) {
	if d.cmd.ProcessState != nil {
		return // it has ended
	}
	_ = d.cmd.Process.Signal(signal)
	killer := time.AfterFunc(30*time.Second, func() { _ = d.cmd.Process.Kill() })
	defer killer.Stop()
	_ = d.cmd.Wait()
}

// stop ends a daemon and removes the mounts that it leaves.
func (d *daemon) stop() {
	d.signal(endAll)
	mounts, _ := os.ReadFile("/proc/self/mounts")
	for line := range strings.Lines(string(mounts)) {
		if at := strings.Fields(line)[1]; strings.HasPrefix(at, d.dir+"/") {
			_ = syscall.Unmount(at, syscall.MNT_DETACH)
		}
	}
}

// awaitDaemon waits until there is a daemon with a storage pool.
func awaitDaemon(socket string) (err error) {
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		var pools []string
		if err = ask(socket, http.MethodGet, "/1.0/storage-pools", nil, &pools); err != nil {
			continue
		}
		if len(pools) > 0 {
			return nil
		}
		err = ask(socket, http.MethodPost, "/1.0/storage-pools", map[string]string{"name": "default", "driver": "dir"}, nil)
	}
	return err
}

// ask is a request to the daemon that is done at once.
func ask(socket, method, path string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, "http://incus"+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}
	response, err := (&http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}).Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	var answer struct {
		Error    string
		Metadata json.RawMessage
	}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		return err
	}
	if answer.Error != "" {
		return errors.New(answer.Error)
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(answer.Metadata, out)
}

func needDaemon(t *testing.T) {
	t.Helper()
	if missing != "" {
		t.Skip(missing)
	}
}

// containers lists what the daemon holds of sandboxes.
func containers() ([]string, error) {
	var found []struct{ Name, Status string }
	err := ask(os.Getenv(socketVariable), http.MethodGet, "/1.0/instances?recursion=1", nil, &found)
	var list []string
	for _, c := range found {
		list = append(list, c.Name+" "+c.Status)
	}
	return list, err
}
