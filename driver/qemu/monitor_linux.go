package qemu

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"aether/driver/lifetime"
	"aether/driver/qemu/qmp"
	"aether/driver/vmm"
)

// monitor is a running QEMU.
type monitor struct {
	dial vmm.Dial
	qmp  *qmp.Client // nil before Hello
}

var _ vmm.Monitor = (*monitor)(nil)

func newMonitor(dial vmm.Dial) vmm.Monitor { return &monitor{dial: dial} }

// Hello implements vmm.Monitor.
func (m *monitor) Hello(ctx context.Context) error {
	conn, err := m.dial(ctx)
	if err == nil {
		m.qmp, err = qmp.New(ctx, conn.(*net.UnixConn))
	}
	return err
}

// Close implements vmm.Monitor.
func (m *monitor) Close() {
	if m.qmp != nil {
		_ = m.qmp.Close() // its socket is closed with the machine
	}
}

// call has QEMU do something that needs no answer.
func (m *monitor) call(ctx context.Context, command string, arguments any) error {
	return m.qmp.Call(ctx, command, arguments, nil)
}

// Boot implements vmm.Monitor. QEMU does so unasked.
func (m *monitor) Boot(context.Context, vmm.Hardware, string) error { return nil }

// Pause implements vmm.Monitor.
func (m *monitor) Pause(ctx context.Context) error { return m.call(ctx, "stop", nil) }

// Resume implements vmm.Monitor.
func (m *monitor) Resume(ctx context.Context) error { return m.call(ctx, "cont", nil) }

// Save implements vmm.Monitor, at any speed.
func (m *monitor) Save(ctx context.Context, to vmm.State) error {
	if to.WithoutMemory {
		if err := m.leaveMemory(ctx, true); err != nil {
			return err
		}
	}
	if err := m.call(ctx, "migrate-set-parameters", map[string]any{"max-bandwidth": int64(1) << 50}); err != nil {
		return err
	}
	err := m.hand(ctx, to.File, "migrate")
	if err == nil {
		err = m.awaitMigration(ctx)
	}
	if ctx.Err() != nil { // it may have begun, though nobody waited for the answer
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lifetime.CleanupTime)
		defer cancel()
		err = errors.Join(err, m.call(ctx, "migrate_cancel", nil), m.awaitMigration(ctx))
	}
	return err
}

// Load implements vmm.Monitor.
func (m *monitor) Load(ctx context.Context, from vmm.State) error {
	if !from.WithoutMemory {
		return m.load(ctx, from.File)
	}
	if err := m.leaveMemory(ctx, true); err != nil {
		return err
	}
	if err := m.load(ctx, from.File); err != nil {
		return err
	}
	return m.leaveMemory(ctx, false) // a snapshot of this machine has its memory
}

// load waits until QEMU has read the state and lets the machine run.
func (m *monitor) load(ctx context.Context, state *os.File) error {
	if err := m.hand(ctx, state, "migrate-incoming"); err != nil {
		return err
	}
	for {
		var info struct {
			Status string `json:"status"`
		}
		if err := m.qmp.Call(ctx, "query-status", nil, &info); err != nil {
			return err
		}
		if info.Status != "inmigrate" {
			return m.Resume(ctx)
		}
		if err := sleep(ctx, pollTime); err != nil {
			return err
		}
	}
}

// hand gives QEMU a file and the command that is about it.
func (m *monitor) hand(ctx context.Context, file *os.File, command string) error {
	const name = "state"
	if err := m.qmp.CallFile(ctx, file, "getfd", map[string]any{"fdname": name}, nil); err != nil {
		return err
	}
	return m.call(ctx, command, map[string]any{"uri": "fd:" + name})
}

// leaveMemory keeps memory out of what QEMU saves and loads: the file that it is
// mapped from has it.
func (m *monitor) leaveMemory(ctx context.Context, out bool) error {
	type capability struct {
		Name string `json:"capability"`
		On   bool   `json:"state"`
	}
	return m.call(ctx, "migrate-set-capabilities", map[string]any{"capabilities": []capability{{"x-ignore-shared", out}}})
}

const pollTime = 5 * time.Millisecond

// awaitMigration waits until QEMU has written all, or has given up.
func (m *monitor) awaitMigration(ctx context.Context) error {
	for {
		var info struct {
			Status string `json:"status"`
			Reason string `json:"error-desc"`
		}
		if err := m.qmp.Call(ctx, "query-migrate", nil, &info); err != nil {
			return err
		}
		switch info.Status {
		case "completed", "cancelled", "":
			return nil // without a status: none was ever begun
		case "failed":
			return fmt.Errorf("QEMU could not write its state: %s", info.Reason)
		}
		if err := sleep(ctx, pollTime); err != nil {
			return err
		}
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
