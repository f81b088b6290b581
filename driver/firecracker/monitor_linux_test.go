package firecracker

import (
	"embed"
	"testing"

	"aether/driver/vmm"
	"aether/driver/vmm/vmmtest"
)

// exchanges are in the program, which also runs where its source is not.
//
//go:embed testdata
var exchanges embed.FS

func TestBootExchange(t *testing.T) {
	m := newMonitor(vmmtest.Replay(t, exchanges, "testdata/boot.json"))
	defer m.Close()
	if err := m.Hello(t.Context()); err != nil {
		t.Error(err)
	}
	if err := m.Boot(t.Context(), vmm.Hardware{MemoryMiB: 512, CPUs: 2}, "console=ttyS0 quiet"); err != nil {
		t.Error(err)
	}
}

func TestSnapshotExchange(t *testing.T) {
	m := newMonitor(vmmtest.Replay(t, exchanges, "testdata/snapshot.json"))
	defer m.Close()
	if err := m.Pause(t.Context()); err != nil {
		t.Error(err)
	}
	if err := m.Save(t.Context(), vmm.State{}); err != nil {
		t.Error(err)
	}
	if err := m.Resume(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestRestoreExchange(t *testing.T) {
	m := newMonitor(vmmtest.Replay(t, exchanges, "testdata/restore.json"))
	defer m.Close()
	if err := m.Hello(t.Context()); err != nil {
		t.Error(err)
	}
	if err := m.Load(t.Context(), vmm.State{}); err != nil {
		t.Error(err)
	}
}

// Making a machine ends with the first refusal, and says it.
func TestRefusedExchange(t *testing.T) {
	m := newMonitor(vmmtest.Replay(t, exchanges, "testdata/refused.json"))
	defer m.Close()
	vmmtest.Refusal(t, m.Boot(t.Context(), vmm.Hardware{MemoryMiB: 128, CPUs: 1}, ""), "PUT /boot-source: The kernel file cannot be opened")
	vmmtest.Refusal(t, m.Pause(t.Context()), "not supported before starting")
	if err := m.Hello(t.Context()); err == nil {
		t.Error("it is taken for Firecracker")
	}
}

func TestHostileMonitor(t *testing.T) { vmmtest.Hostile(t, newMonitor) }
