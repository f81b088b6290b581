package pid1

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"sync"

	"aether/internal/host/guestinit"
)

// holds counts who wants no command to run: a host that is about to copy the machine, and
// the sending of files, at the same time or one within the other.
type holds struct {
	mu    sync.Mutex
	count int
	thaw  func() error
	host  bool // the host is among them
}

// freezing stops all commands, and gives what lets them go on.
type freezing func(context.Context) (thaw func() error, err error)

// take has no command run until the last one who wants that calls release.
func (h *holds) take(ctx context.Context, freeze freezing) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.takeLocked(ctx, freeze)
}

func (h *holds) takeLocked(ctx context.Context, freeze freezing) error {
	if h.count == 0 {
		thaw, err := freeze(ctx)
		if err != nil {
			return err
		}
		h.thaw = thaw
	}
	h.count++
	return nil
}

func (h *holds) release() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.releaseLocked()
}

func (h *holds) releaseLocked() error {
	if h.count--; h.count > 0 {
		return nil
	}
	return h.thaw()
}

// hold is take for the host, which may ask twice.
func (h *holds) hold(ctx context.Context, freeze freezing) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.host {
		return nil
	}
	err := h.takeLocked(ctx, freeze)
	h.host = err == nil
	return err
}

// letGo is release for the host, which may have asked for nothing.
func (h *holds) letGo() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.host {
		return nil
	}
	h.host = false
	return h.releaseLocked()
}

// hold stops the commands for the host.
func (m *made) hold(w http.ResponseWriter, r *http.Request) {
	control(maxControl, func([]byte) error { return m.holds.hold(r.Context(), m.freeze) })(w, r)
}

// letGo lets the commands go on that the host has stopped, here or in the machine that this
// one is a copy of.
func (m *made) letGo([]byte) error { return m.holds.letGo() }

// goOn is renew, and letGo after it.
func (m *made) goOn(body []byte) error {
	if err := renew(body); err != nil {
		return err
	}
	return m.holds.letGo()
}

// renew makes this machine differ from the one that it is a copy of.
func renew(body []byte) error {
	var r Renewal
	if err := json.Unmarshal(body, &r); err != nil {
		return err
	}
	if err := r.Validate(); err != nil {
		return err
	}
	if err := guestinit.AddEntropy(r.Secret); err != nil {
		return err
	}
	if err := guestinit.SetClock(r.Now); err != nil {
		return err
	}
	if err := guestinit.SetHostname(r.Hostname); err != nil {
		return err
	}
	return writeMachineID("/", r.MachineID)
}

// writeMachineID replaces the number of the machine, where there is one. The files are the
// commands': whatever they have made of the path, nothing outside of the root is written.
func writeMachineID(at, id string) error {
	const name = "etc/machine-id"
	root, err := os.OpenRoot(at)
	if err != nil {
		return err
	}
	defer root.Close()
	old, err := root.Lstat(name)
	if err != nil || !old.Mode().IsRegular() {
		return nil // there is none, or one that is kept elsewhere
	}
	// Another file in its place: the old one may be open, or linked to elsewhere.
	const next = "etc/.machine-id.aether"
	if err := root.Remove(next); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	file, err := root.OpenFile(next, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o444)
	if err != nil {
		return err
	}
	_, err = bytes.NewReader([]byte(id + "\n")).WriteTo(file)
	if err = errors.Join(err, file.Close()); err != nil {
		return err
	}
	return root.Rename(next, name)
}
