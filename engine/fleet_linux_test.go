package engine_test

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"aether/driver/cell"
	"aether/engine"
	"aether/engine/access"
	"aether/guest"
	"aether/image"
	"aether/network"
	"aether/sandbox"
)

var (
	alice = engine.Caller{Tenant: "alice", Name: "test"}
	bob   = engine.Caller{Tenant: "bob", Name: "test"}
	root  = engine.Caller{Tenant: "root", Operator: true, Name: "test"}
)

// house is a state directory and the places of a cell driver, in which one engine
// after another lives.
type house struct {
	t      testing.TB
	dir    string
	keep   sandbox.Fidelity
	access access.Config
	// network is that of the cells, or nil.
	network *network.Service
}

// unbounded are rights that hosts without control groups of this user's can hold too.
var unbounded = access.Policy{UnboundedMemory: true, UnboundedDisk: true}

// openAccess gives them to every tenant.
var openAccess = access.Config{Default: access.Tenant{Policy: unbounded}}

func newHouse(t testing.TB, keep sandbox.Fidelity) *house {
	t.Helper()
	if keep == sandbox.Checkpoint && runtime.GOARCH != "amd64" {
		t.Skip("the memory of cells is kept on amd64 only")
	}
	return &house{t: t, dir: t.TempDir(), keep: keep, access: openAccess}
}

func (h *house) options() engine.Options {
	at := func(name string) string { return filepath.Join(h.dir, name) }
	images := sync.OnceValues(func() (*image.Store, error) { return image.Open(at("images")) })
	return engine.Options{State: at("state"), Access: h.access, Drivers: []sandbox.Maker{{Name: cell.Name, New: func() sandbox.Driver {
		return cell.New(cell.Options{Images: images, RunDir: at("run"), Network: h.network})
	}}}}
}

// open begins an engine, which is closed with the test unless it was before.
func (h *house) open() *engine.Engine {
	h.t.Helper()
	e, err := engine.Open(h.options())
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { h.close(e) })
	return e
}

func (h *house) close(e *engine.Engine) {
	h.t.Helper()
	if err := e.Close(context.Background()); err != nil {
		h.t.Errorf("close: %v", err)
	}
}

func create(t testing.TB, e *engine.Engine, who engine.Caller, req engine.CreateRequest) engine.Sandbox {
	t.Helper()
	s, err := e.Create(t.Context(), who, req)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func get(t testing.TB, e *engine.Engine, who engine.Caller, id string) engine.Sandbox {
	t.Helper()
	s, err := e.Get(t.Context(), who, id)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// sh runs a script in a sandbox and gives what it prints.
func sh(t testing.TB, e *engine.Engine, who engine.Caller, id, script string) string {
	t.Helper()
	out, err := tryShell(t.Context(), e, who, id, script)
	if err != nil {
		t.Fatalf("%s: %v", script, err)
	}
	return out
}

func tryShell(ctx context.Context, e *engine.Engine, who engine.Caller, id, script string) (string, error) {
	client, release, err := e.Guest(ctx, who, id)
	if err != nil {
		return "", err
	}
	defer release()
	var out bytes.Buffer
	running, err := client.Start(ctx, guest.Cmd{Path: "/bin/sh", Args: []string{"-c", script}, Stdout: &out, Stderr: &out})
	if err != nil {
		return "", err
	}
	status, err := running.Wait()
	if err == nil && status.Code != 0 {
		err = fmt.Errorf("it exited with %d: %s", status.Code, out.String())
	}
	return strings.TrimSpace(out.String()), err
}

func wantClass(t testing.TB, err error, want sandbox.Class) {
	t.Helper()
	if err == nil || sandbox.ClassOf(err) != want {
		t.Errorf("%v, want class %v", err, want)
	}
}

// inState waits for a sandbox to come to a state.
func inState(t testing.TB, e *engine.Engine, id string, want engine.State) engine.Sandbox {
	t.Helper()
	var s engine.Sandbox
	if !eventually(func() bool { s = get(t, e, root, id); return s.State == want }) {
		t.Fatalf("%s is %s and not %s: %+v", id, s.State, want, s)
	}
	return s
}

// happened is the history as a caller is told it, up to now.
func happened(t testing.TB, e *engine.Engine, who engine.Caller) (list []engine.Event) {
	t.Helper()
	over, end := context.WithCancel(t.Context())
	end()
	for event, err := range e.Events(over, who, 0) {
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, event)
	}
	return list
}

// kinds are what the history says of a sandbox.
func kinds(t testing.TB, e *engine.Engine, id string) string {
	t.Helper()
	var list []string
	for _, event := range happened(t, e, root) {
		if event.Sandbox == id {
			list = append(list, string(event.Kind))
		}
	}
	return strings.Join(list, " ")
}

// wantKinds wants the history to say that of a sandbox, and no more: the last is told just
// after its state can be seen, and nothing follows it.
func wantKinds(t testing.TB, e *engine.Engine, id, want string) {
	t.Helper()
	eventually(func() bool { return len(kinds(t, e, id)) >= len(want) })
	time.Sleep(20 * time.Millisecond)
	if got := kinds(t, e, id); got != want {
		t.Errorf("events: %s, want %s", got, want)
	}
}

// TestSandboxOfTheEngine: from its making to its end.
func TestSandboxOfTheEngine(t *testing.T) {
	h := newHouse(t, sandbox.Filesystem)
	e := h.open()
	s := create(t, e, alice, engine.CreateRequest{Metadata: map[string]string{"for": "me"}})
	if s.State != engine.Running || s.Driver != cell.Name || s.Why == "" || s.Tenant != "alice" || s.Metadata["for"] != "me" || s.Created.IsZero() {
		t.Errorf("%+v", s)
	}
	if strings.Trim(s.ID, "0123456789abcdefghijklmnopqrstuvwxyz") != "" || len(s.ID) < 16 || len(s.ID) > 40 {
		t.Errorf("the id %q", s.ID)
	}
	if got := sh(t, e, alice, s.ID, "echo $((6*7))"); got != "42" {
		t.Errorf("it says %q", got)
	}
	if stats, err := e.Stats(t.Context(), alice, s.ID); err != nil || stats.Processes == nil && stats.DiskBytes == nil && stats.MemoryBytes == nil {
		t.Errorf("%+v, %v", stats, err)
	}
	conn, err := e.Dial(t.Context(), alice, s.ID)
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
	for range 2 {
		if err := e.Destroy(t.Context(), alice, s.ID); err != nil {
			t.Error(err)
		}
	}
	if s = get(t, e, alice, s.ID); s.State != engine.Ended || s.Exit.Cause != sandbox.Destroyed || s.EndedAt.IsZero() {
		t.Errorf("%+v", s)
	}
	_, err = tryShell(t.Context(), e, alice, s.ID, "true")
	wantClass(t, err, sandbox.NotFound)
	wantKinds(t, e, s.ID, "created started ended")
}

// TestOthersSandboxesDoNotExist: every method answers a tenant about another's id as
// about one that never was.
func TestOthersSandboxesDoNotExist(t *testing.T) {
	e := newHouse(t, sandbox.Filesystem).open()
	theirs := create(t, e, bob, engine.CreateRequest{Key: "k"}).ID
	for name, call := range map[string]func(id string) error{
		"get":      func(id string) error { _, err := e.Get(t.Context(), alice, id); return err },
		"destroy":  func(id string) error { return e.Destroy(t.Context(), alice, id) },
		"guest":    func(id string) error { _, _, err := e.Guest(t.Context(), alice, id); return err },
		"dial":     func(id string) error { _, err := e.Dial(t.Context(), alice, id); return err },
		"stats":    func(id string) error { _, err := e.Stats(t.Context(), alice, id); return err },
		"pause":    func(id string) error { _, err := e.Pause(t.Context(), alice, id, ""); return err },
		"resume":   func(id string) error { _, err := e.Resume(t.Context(), alice, id, ""); return err },
		"fork":     func(id string) error { _, err := e.Fork(t.Context(), alice, id, engine.ForkRequest{}); return err },
		"metadata": func(id string) error { _, err := e.SetMetadata(t.Context(), alice, id, nil); return err },
		"timeout":  func(id string) error { _, err := e.SetTimeout(t.Context(), alice, id, 0, ""); return err },
	} {
		never := strings.Repeat("0", len(theirs))
		got, want := call(theirs), call(never)
		wantClass(t, got, sandbox.NotFound)
		if strings.ReplaceAll(fmt.Sprint(got), theirs, never) != fmt.Sprint(want) {
			t.Errorf("%s: %v, and of one that never was: %v", name, got, want)
		}
	}
	if page, err := e.List(t.Context(), alice, engine.Query{Tenant: "bob"}); err != nil || len(page.Sandboxes) != 0 {
		t.Errorf("the list: %+v, %v", page, err)
	}
	mine := create(t, e, alice, engine.CreateRequest{Key: "k"}).ID
	if mine == theirs {
		t.Error("another tenant's idempotency key gave their sandbox")
	}
	for _, event := range happened(t, e, alice) {
		if event.Sandbox == theirs {
			t.Errorf("an event of another: %+v", event)
		}
	}
	if get(t, e, root, theirs).State != engine.Running {
		t.Error("somebody changed it")
	}
}

func TestCreateRefuses(t *testing.T) {
	e := newHouse(t, sandbox.Filesystem).open()
	for field, req := range map[string]engine.CreateRequest{
		"spec.id":  {Spec: sandbox.Spec{ID: "mine"}},
		"image":    {Spec: sandbox.Spec{Image: "a\x00"}},
		"driver":   {Driver: "none-such"},
		"metadata": {Metadata: map[string]string{"": "x"}},
		"timeout":  {Timeout: -1},
		"then":     {Timeout: 1, Then: "explode"},
		"key":      {Key: strings.Repeat("k", 256)},
	} {
		_, err := e.Create(t.Context(), alice, req)
		wantField(t, err, field)
	}
	_, err := e.Create(t.Context(), engine.Caller{}, engine.CreateRequest{})
	wantField(t, err, "tenant")
	_, err = e.Create(t.Context(), alice, engine.CreateRequest{Template: "none"})
	wantClass(t, err, sandbox.NotFound)
	if page, err := e.List(t.Context(), root, engine.Query{}); err != nil || len(page.Sandboxes) != 0 {
		t.Errorf("something was made: %+v, %v", page, err)
	}
	_, err = engine.New(engine.Options{}).Create(t.Context(), alice, engine.CreateRequest{})
	wantClass(t, err, sandbox.Conflict)
}

func wantField(t testing.TB, err error, field string) {
	t.Helper()
	wantClass(t, err, sandbox.Invalid)
	if !strings.Contains(fmt.Sprint(err), field) {
		t.Errorf("%v does not name %s", err, field)
	}
}

// TestOneEngineHasOneStateDirectory: a second is refused, and the first is not disturbed.
func TestOneEngineHasOneStateDirectory(t *testing.T) {
	h := newHouse(t, sandbox.Filesystem)
	e := h.open()
	_, err := engine.Open(h.options())
	wantClass(t, err, sandbox.Conflict)
	create(t, e, alice, engine.CreateRequest{})
}
