package cloudhypervisor

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"aether/driver/vmm"
)

// savedURL is the directory of a machine's state. It must be an absolute path, and
// the process knows none that leads to where it works but this.
const savedURL = "file:///proc/self/cwd/" + vmm.Saved

// monitor is a running Cloud Hypervisor.
type monitor struct{ *vmm.Client }

var _ vmm.Monitor = monitor{}

func newMonitor(dial vmm.Dial) vmm.Monitor { return monitor{vmm.NewClient(dial, faultOf)} }

// faultOf reads a refusal: a list of causes, the outermost first, or, of older
// releases, a text.
func faultOf(body []byte) string {
	var causes []string
	if err := json.Unmarshal(body, &causes); err != nil {
		return string(body)
	}
	return strings.Join(causes, ": ")
}

func (m monitor) put(ctx context.Context, verb string, body any) error {
	return m.Call(ctx, http.MethodPut, "/api/v1/"+verb, body, nil)
}

// Hello implements vmm.Monitor.
func (m monitor) Hello(ctx context.Context) error {
	var answer pingAnswer
	err := m.Call(ctx, http.MethodGet, "/api/v1/vmm.ping", nil, &answer)
	if err == nil && answer.Version == "" {
		err = errors.New("it does not know its version, as Cloud Hypervisor does")
	}
	return err
}

// Boot implements vmm.Monitor.
func (m monitor) Boot(ctx context.Context, hw vmm.Hardware, words string) error {
	config := vmConfig{
		CPUs:    cpusConfig{Boot: hw.CPUs, Max: hw.CPUs},
		Memory:  memoryConfig{Size: hw.MemoryMiB << 20},
		Payload: payloadConfig{Kernel: vmm.Kernel, Initramfs: vmm.Initramfs, KernelArgs: words},
		Disks:   []diskConfig{{Path: vmm.Disk, ReadOnly: true}},
		RNG:     rngConfig{Source: "/dev/urandom"},
		Serial:  consoleConfig{Mode: "Tty"}, // its standard output
		Console: consoleConfig{Mode: "Off"},
		Vsock:   vsockConfig{CID: vmm.GuestCID, Socket: vmm.Vsock},
	}
	if err := m.put(ctx, "vm.create", config); err != nil {
		return err
	}
	return m.put(ctx, "vm.boot", nil)
}

// Pause implements vmm.Monitor.
func (m monitor) Pause(ctx context.Context) error { return m.put(ctx, "vm.pause", nil) }

// Resume implements vmm.Monitor.
func (m monitor) Resume(ctx context.Context) error { return m.put(ctx, "vm.resume", nil) }

// Save implements vmm.Monitor.
func (m monitor) Save(ctx context.Context, _ vmm.State) error {
	return m.put(ctx, "vm.snapshot", snapshotConfig{Destination: savedURL})
}

// Load implements vmm.Monitor. A machine is restored as it was saved: paused.
func (m monitor) Load(ctx context.Context, _ vmm.State) error {
	if err := m.put(ctx, "vm.restore", restoreConfig{Source: savedURL}); err != nil {
		return err
	}
	return m.Resume(ctx)
}
