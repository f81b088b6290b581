package firecracker

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"path"

	"aether/driver/vmm"
)

// Files of a machine's state.
const (
	stateFile  = "state"
	memoryFile = "memory"
)

const rootDrive = "root"

// monitor is a running Firecracker.
type monitor struct{ *vmm.Client }

var _ vmm.Monitor = monitor{}

func newMonitor(dial vmm.Dial) vmm.Monitor { return monitor{vmm.NewClient(dial, faultOf)} }

func faultOf(body []byte) string {
	var f fault
	if err := json.Unmarshal(body, &f); err != nil || f.Message == "" {
		return string(body)
	}
	return f.Message
}

// Hello implements vmm.Monitor.
func (m monitor) Hello(ctx context.Context) error {
	var answer versionAnswer
	err := m.Call(ctx, http.MethodGet, "/version", nil, &answer)
	if err == nil && answer.Version == "" {
		err = errors.New("it does not know its version, as Firecracker does")
	}
	return err
}

// put is one step of making a machine.
type put struct {
	path string
	body any
}

func (m monitor) putAll(ctx context.Context, steps []put) error {
	for _, step := range steps {
		if err := m.Call(ctx, http.MethodPut, step.path, step.body, nil); err != nil {
			return err
		}
	}
	return nil
}

// Boot implements vmm.Monitor.
func (m monitor) Boot(ctx context.Context, hw vmm.Hardware, words string) error {
	return m.putAll(ctx, []put{
		{"/machine-config", machineConfig{CPUs: hw.CPUs, MemoryMiB: hw.MemoryMiB}},
		{"/boot-source", bootSource{Kernel: vmm.Kernel, Initramfs: vmm.Initramfs, KernelArgs: words}},
		// Not the root in its sense: it would add to the kernel's command line.
		{"/drives/" + rootDrive, drive{ID: rootDrive, Path: vmm.Disk, ReadOnly: true}},
		{"/vsock", vsock{CID: vmm.GuestCID, Path: vmm.Vsock}},
		{"/entropy", entropy{}},
		{"/actions", action{Type: "InstanceStart"}},
	})
}

// Pause implements vmm.Monitor.
func (m monitor) Pause(ctx context.Context) error { return m.become(ctx, "Paused") }

// Resume implements vmm.Monitor.
func (m monitor) Resume(ctx context.Context) error { return m.become(ctx, "Resumed") }

func (m monitor) become(ctx context.Context, state string) error {
	return m.Call(ctx, http.MethodPatch, "/vm", vmState{State: state}, nil)
}

// Save implements vmm.Monitor.
func (m monitor) Save(ctx context.Context, _ vmm.State) error {
	return m.putAll(ctx, []put{{"/snapshot/create", snapshotCreate{Type: "Full", State: saved(stateFile), Memory: saved(memoryFile)}}})
}

// Load implements vmm.Monitor. The memory is mapped from its file, so that machines
// share the pages that they do not change.
func (m monitor) Load(ctx context.Context, _ vmm.State) error {
	return m.putAll(ctx, []put{{"/snapshot/load", snapshotLoad{State: saved(stateFile), Resume: true,
		Memory: memoryBackend{Type: "File", Path: saved(memoryFile)}}}})
}

func saved(name string) string { return path.Join(vmm.Saved, name) }
