package incus_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"aether/driver/daemon/daemontest"
	"aether/driver/incus"
	"aether/internal/host/guestinit"
	"aether/network/networktest"
	"aether/sandbox"
)

const (
	// socketVariable names the daemon's socket.
	socketVariable = "INCUS_SOCKET"
	// pace is of a driver that makes a sandbox in half a second, and fewer of them at a
	// time.
	pace = 5
)

func newDriver(dir string) sandbox.Driver {
	return incus.New(incus.Options{RunDir: dir, Images: daemontest.Images, Network: networktest.Service()})
}

func TestMain(m *testing.M) { os.Exit(daemontest.Main(m, newDriver, lacks, start)) }

func lacks() string {
	switch {
	case slices.Contains(os.Args, "-test.fuzzworker"):
		return "a worker of the fuzzer has no daemon"
	case os.Geteuid() != 0:
		return "an Incus daemon of its own needs root"
	case program() == "":
		return "incusd is not installed (install the package incus)"
	}
	return ""
}

func start(dir string) (stop func(), err error) {
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
	*daemontest.Process
	dir, socket string
}

// Signals on which a daemon ends: with its containers, and without them.
const (
	endAll   = syscall.SIGPWR
	endAlone = syscall.SIGTERM
)

// startDaemon starts a daemon that shares nothing with one that may be in use on
// this host, except for the names of cgroups.
func startDaemon(dir string) (*daemon, error) {
	if err := os.MkdirAll(dir, 0o711); err != nil {
		return nil, err
	}
	if err := keepDatabaseInMemory(filepath.Join(dir, "database")); err != nil {
		return nil, err
	}
	cmd := exec.Command(program())
	cmd.Env = append(os.Environ(), socketVariable+"=", "INCUS_DIR="+dir, "PATH="+filepath.Dir(program())+":"+os.Getenv("PATH"))
	socket := filepath.Join(dir, "unix.socket")
	process, err := daemontest.Start(cmd, dir+".log", endAll, func() error { return awaitDaemon(socket) })
	d := &daemon{process, dir, socket}
	if err != nil {
		d.unmount()
		return nil, err
	}
	return d, nil
}

// keepDatabaseInMemory spares a new daemon the waits for a busy disk: it bounds those
// of its own database, and refuses what it is asked for ("context deadline exceeded").
func keepDatabaseInMemory(dir string) error {
	if _, err := os.Stat(dir); err == nil {
		return nil // of a daemon that starts again
	}
	return guestinit.Mount("tmpfs", dir, "tmpfs", 0, "mode=700")
}

// stop ends a daemon and removes the mounts that it leaves.
func (d *daemon) stop() {
	d.End(endAll)
	d.unmount()
}

func (d *daemon) unmount() {
	mounts, _ := os.ReadFile("/proc/self/mounts")
	for line := range strings.Lines(string(mounts)) {
		if at := strings.Fields(line)[1]; strings.HasPrefix(at, d.dir+"/") {
			_ = exec.Command("umount", "-l", at).Run()
		}
	}
}

// awaitDaemon waits until there is a daemon with a storage pool.
func awaitDaemon(socket string) (err error) {
	for deadline := time.Now().Add(3 * time.Minute); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
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
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
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
