package tool

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"aether/driver/cell"
	"aether/engine"
	"aether/image"
	"aether/network"
	"aether/network/networktest"
	"aether/sandbox"
)

// scratch is a directory that all may pass through.
var scratch string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "aether-tool-")
	if err == nil {
		err = os.Chmod(dir, 0o711)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	scratch = dir
	return m.Run()
}

var (
	alice = engine.Caller{Tenant: "alice", Operator: true, Name: "alice"}
	bob   = engine.Caller{Tenant: "bob", Name: "bob"}
)

// house is a real engine of cells, and who has called which tool in vain or not.
type house struct {
	t      *testing.T
	engine *engine.Engine
	state  *State
	mu     sync.Mutex
	worked map[string]bool
}

var buildNetwork = sync.OnceValue(func() error { return networktest.Build(scratch) })

func newHouse(t *testing.T) *house {
	t.Helper()
	if runtime.GOARCH != "amd64" {
		t.Skip("cells are forked on amd64 only")
	}
	if err := buildNetwork(); err != nil {
		t.Fatal(err)
	}
	service := network.New(network.Options{})
	dir := filepath.Join(scratch, t.Name())
	images := sync.OnceValues(func() (*image.Store, error) { return image.Open(filepath.Join(dir, "images")) })
	e, err := engine.Open(engine.Options{State: filepath.Join(dir, "state"), Drivers: []sandbox.Maker{{Name: cell.Name, New: func() sandbox.Driver {
		return cell.New(cell.Options{Images: images, RunDir: filepath.Join(dir, "run"), Network: service})
	}}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(context.Background()); err != nil {
			t.Errorf("close: %v", err)
		}
		if err := service.Close(); err != nil {
			t.Errorf("close the network: %v", err)
		}
	})
	return &house{t: t, engine: e, state: NewState(), worked: map[string]bool{}}
}

// session is one of the caller's, closed with the test.
func (h *house) session(who engine.Caller, opts Options) *Session {
	h.t.Helper()
	opts.Backend, opts.State, opts.Reveal = OfEngine(h.engine, who, h.systems), h.state, true
	opts.Audit = func(c Call) {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.worked[c.Tool] = h.worked[c.Tool] || c.Err == nil
	}
	s, err := New(opts)
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() {
		if err := s.Close(context.Background()); err != nil {
			h.t.Errorf("close the session: %v", err)
		}
	})
	return s
}

func (h *house) systems(ctx context.Context) (list []System, _ error) {
	for _, d := range h.engine.Drivers().All() {
		info := d.Info()
		list = append(list, System{info.Name, info.Boundary, true, &info.Verbs, &info.Networks, d.Probe(ctx)})
	}
	return list, nil
}

// args are the arguments of a call.
type args map[string]any

func (a args) text(t testing.TB) json.RawMessage {
	t.Helper()
	text, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// do calls a tool that must do it, and holds its answer to the schema.
func do[Out any](t *testing.T, s *Session, name string, a args) Out {
	t.Helper()
	result := s.Do(t.Context(), name, a.text(t))
	if result.Failure != nil {
		t.Fatalf("%s %v: %+v", name, a, *result.Failure)
	}
	checkAnswer(t, name, result)
	return result.Value.(Out)
}

// refuse calls a tool that must refuse, for a reason of the class, and gives that.
func refuse(t *testing.T, s *Session, class, name string, a args) *Failure {
	t.Helper()
	result := s.Do(t.Context(), name, a.text(t))
	if result.Failure == nil {
		t.Errorf("%s %.200v: it answers %.300v", name, fmt.Sprint(a), fmt.Sprint(result.Value))
		return &Failure{}
	}
	checkAnswer(t, name, result)
	if result.Failure.Class != class {
		t.Errorf("%s %.200v: %+v, not %s", name, fmt.Sprint(a), *result.Failure, class)
	}
	if result.Failure.Remedy == "" || result.Failure.Reason == "" || len(result.Failure.Reason) > 1100 {
		t.Errorf("%s: the reason has %d bytes, the remedy is %q", name, len(result.Failure.Reason), result.Failure.Remedy)
	}
	return result.Failure
}

func checkAnswer(t *testing.T, name string, r Result) {
	t.Helper()
	one, err := named(name)
	if err != nil {
		t.Fatal(err)
	}
	validate(t, one.OutputSchema(), r)
}

// shell runs a command and gives what it prints.
func shell(t *testing.T, s *Session, id, command string) string {
	t.Helper()
	ran := do[Ran](t, s, "command_run", args{"sandbox": id, "command": command})
	if *ran.ExitCode != 0 {
		t.Fatalf("%s: %d, %s", command, *ran.ExitCode, ran.Stderr.Text)
	}
	return ran.Stdout.Text
}

func need(t *testing.T, program string) {
	t.Helper()
	if _, err := exec.LookPath(program); err != nil {
		t.Skipf("this host has no %s", program)
	}
}

// TestEveryTool calls every tool for what it is there for, and looks whether it was done.
func TestEveryTool(t *testing.T) {
	need(t, "python3")
	h := newHouse(t)
	shared, dir, _ := shareDir(t)
	s := h.session(alice, Options{Own: true, Expose: true, Files: shared})
	made := do[Sandbox](t, s, "sandbox_create", args{"env": []string{"GREETING=hello"}, "allow": []string{"api.example.com:443"}})
	id := made.ID
	if got, err := h.engine.Get(t.Context(), alice, id); err != nil || got.State != engine.Running || made.Driver != "cell" {
		t.Fatalf("%+v, %v", got, err)
	}
	t.Run("sandboxes", func(t *testing.T) { h.trySandboxes(t, s, id) })
	t.Run("commands", func(t *testing.T) { tryCommands(t, s, id) })
	t.Run("files", func(t *testing.T) { tryFiles(t, s, id) })
	t.Run("transfers", func(t *testing.T) { tryTransfers(t, s, id, dir) })
	t.Run("branches", func(t *testing.T) { h.tryBranches(t, s, id) })
	t.Run("templates", func(t *testing.T) { h.tryTemplates(t, s, id) })
	t.Run("networks", func(t *testing.T) { h.tryNetworks(t, s, id) })
	t.Run("systems", func(t *testing.T) { trySystems(t, s) })
	do[Done](t, s, "sandbox_destroy", args{"sandbox": id})
	if got, err := h.engine.Get(t.Context(), alice, id); err != nil || got.State != engine.Ended {
		t.Errorf("%+v, %v", got, err)
	}
	if refuse(t, s, "not_found", "command_run", args{"sandbox": id, "command": "true"}).Next.Tool != "sandbox_create" {
		t.Error("it is not said what to do about a sandbox that has ended")
	}
	for _, one := range s.Tools() {
		if !h.worked[one.Name] {
			t.Errorf("%s was not tried", one.Name)
		}
	}
}

// toldPaused says of every sandbox that it is paused.
type toldPaused struct{ Backend }

func (b toldPaused) Get(ctx context.Context, id string) (engine.Sandbox, error) {
	found, err := b.Backend.Get(ctx, id)
	found.State = engine.Paused
	return found, err
}

// counted counts how often it is asked about a sandbox.
type counted struct {
	Backend
	gets int
}

func (b *counted) Get(ctx context.Context, id string) (engine.Sandbox, error) {
	b.gets++
	return b.Backend.Get(ctx, id)
}

func (h *house) trySandboxes(t *testing.T, s *Session, id string) {
	if list := do[Sandboxes](t, s, "sandbox_list", args{"state": "running"}); len(list.Sandboxes) != 1 || list.Sandboxes[0].ID != id {
		t.Errorf("listed are %+v", list)
	}
	shell(t, s, id, "echo kept > /tmp/kept")
	if now := do[Sandbox](t, s, "sandbox_pause", args{"sandbox": id}); now.State != "paused" {
		t.Errorf("it is %+v", now)
	}
	if f := refuse(t, s, "conflict", "command_run", args{"sandbox": id, "command": "true"}); f.Next == nil || f.Next.Tool != "sandbox_resume" || f.Next.Arguments["sandbox"] != id {
		t.Errorf("what to do about a paused sandbox: %+v", f.Next)
	}
	do[Sandbox](t, s, "sandbox_resume", args{"sandbox": id})
	// One that the last engine interrupted is told as paused until it is used.
	seen := s.opts.Backend
	s.opts.Backend = toldPaused{seen}
	if got := shell(t, s, id, "echo awake"); got != "awake\n" {
		t.Errorf("it says %q", got)
	}
	s.opts.Backend = seen
	if got := shell(t, s, id, "cat /tmp/kept; echo $GREETING"); got != "kept\nhello\n" {
		t.Errorf("it has %q", got)
	}
	looks := &counted{Backend: seen}
	s.opts.Backend = looks
	if shell(t, s, id, "true"); looks.gets != 0 {
		t.Errorf("a sandbox that was used a moment ago is looked at %d times", looks.gets)
	}
	s.opts.Backend = seen
	now := do[Sandbox](t, s, "sandbox_timeout", args{"sandbox": id, "timeout_s": 3600, "then": "pause"})
	if left := time.Until(now.Expires); left < 59*time.Minute || left > time.Hour {
		t.Errorf("it ends in %v", left)
	}
	if got, err := h.engine.Get(t.Context(), alice, id); err != nil || got.Then != engine.ThenPause {
		t.Errorf("%+v, %v", got, err)
	}
	if m := do[Metrics](t, s, "sandbox_metrics", args{"sandbox": id}); m.Processes == nil && m.DiskBytes == nil && m.MemoryBytes == nil {
		t.Errorf("nothing is measured: %+v", m)
	}
	if got := do[Sandbox](t, s, "sandbox_get", args{"sandbox": id}); got.ID != id || got.State != "running" {
		t.Errorf("it is %+v", got)
	}
}

func tryCommands(t *testing.T, s *Session, id string) {
	failed := do[Ran](t, s, "command_run", args{"sandbox": id, "command": "cat; echo oops >&2; exit 3", "stdin": "from here", "workdir": "/tmp", "env": []string{"A=b"}})
	if *failed.ExitCode != 3 || failed.Stdout.Text != "from here" || failed.Stderr.Text != "oops\n" {
		t.Errorf("it ran as %+v", failed)
	}
	long := do[Ran](t, s, "command_run", args{"sandbox": id, "command": "seq 1 20000", "max_bytes": 100})
	if !long.Stdout.Truncated || len(long.Stdout.Text) > 100 || long.Stdout.Text[len(long.Stdout.Text)-6:] != "20000\n" {
		t.Errorf("the end is %+v", long.Stdout)
	}
	if rest := do[Ran](t, s, "command_output", args{"sandbox": id, "process": long.Process, "offset": 0, "max_bytes": 10}); rest.Stdout.Text != "1\n2\n3\n4\n5\n" || rest.Running || *rest.ExitCode != 0 {
		t.Errorf("the beginning is %+v", rest)
	}
	var slow Ran
	for within := 1; within <= 100 && slow.Stdout.Text == ""; within *= 10 { // until the host is fast enough
		slow = do[Ran](t, s, "command_run", args{"sandbox": id, "command": "echo begun; sleep 1000", "timeout_s": within})
	}
	if !slow.TimedOut || *slow.ExitCode != 124 || slow.Stdout.Text != "begun\n" {
		t.Errorf("what took too long: %+v", slow)
	}
	started := do[Started](t, s, "command_start", args{"sandbox": id, "command": "while read x; do echo got $x; done; exit 5", "input": true})
	list := do[Processes](t, s, "command_list", args{"sandbox": id})
	for end := time.Now().Add(2 * time.Minute); len(list.Processes) > 1 && time.Now().Before(end); { // what took too long is being ended
		list = do[Processes](t, s, "command_list", args{"sandbox": id})
	}
	if len(list.Processes) != 1 || list.Processes[0].Process != started.Process {
		t.Errorf("there run %+v", list)
	}
	do[Done](t, s, "command_input", args{"sandbox": id, "process": started.Process, "text": "one\n"})
	do[Done](t, s, "command_input", args{"sandbox": id, "process": started.Process, "text": "two\n", "close": true})
	if out := do[Ran](t, s, "command_output", args{"sandbox": id, "process": started.Process, "wait_s": 120}); out.Running || *out.ExitCode != 5 || out.Stdout.Text != "got one\ngot two\n" {
		t.Errorf("it said %+v", out)
	}
	sleeper := do[Started](t, s, "command_start", args{"sandbox": id, "command": "exec sleep 600"})
	if out := do[Ran](t, s, "command_output", args{"sandbox": id, "process": sleeper.Process}); !out.Running || out.ExitCode != nil {
		t.Errorf("it sleeps as %+v", out)
	}
	do[Done](t, s, "command_signal", args{"sandbox": id, "process": sleeper.Process, "signal": "TERM"})
	if out := do[Ran](t, s, "command_output", args{"sandbox": id, "process": sleeper.Process, "wait_s": 120}); out.Running || out.Signal != 15 {
		t.Errorf("it ended as %+v", out)
	}
	refuse(t, s, "not_found", "command_signal", args{"sandbox": id, "process": 99999, "signal": "KILL"})
	do[CodeResult](t, s, "code_run", args{"sandbox": id, "language": "python", "code": "x = 41"})
	again := do[CodeResult](t, s, "code_run", args{"sandbox": id, "language": "python", "code": "print('hi'); x + 1"})
	if again.Value != "42" || again.Stdout.Text != "hi\n" || again.Fresh {
		t.Errorf("the code gave %+v", again)
	}
	if wrong := do[CodeResult](t, s, "code_run", args{"sandbox": id, "language": "python", "code": "1/0"}); wrong.Error == nil || wrong.Error.Name != "ZeroDivisionError" {
		t.Errorf("wrong code gave %+v", wrong)
	}
	if late := do[CodeResult](t, s, "code_run", args{"sandbox": id, "language": "python", "code": "import time; time.sleep(1000)", "timeout_s": 1}); !late.TimedOut {
		t.Errorf("late code gave %+v", late)
	}
	if fresh := do[CodeResult](t, s, "code_run", args{"sandbox": id, "language": "python", "code": "x", "restart": true}); !fresh.Fresh || fresh.Error == nil || fresh.Error.Name != "NameError" {
		t.Errorf("a new interpreter gave %+v", fresh)
	}
}

func tryFiles(t *testing.T, s *Session, id string) {
	at := func(path string, more args) args {
		a := args{"sandbox": id, "path": path}
		for k, v := range more {
			a[k] = v
		}
		return a
	}
	do[Done](t, s, "file_mkdir", at("/tmp/place/deep", nil))
	refuse(t, s, "conflict", "file_mkdir", at("/tmp/place/deep", nil))
	do[Written](t, s, "file_write", at("/tmp/place/a.txt", args{"content": "one\ntwo\nthree\n"}))
	if got := shell(t, s, id, "cat /tmp/place/a.txt; chmod 755 /tmp/place/a.txt"); got != "one\ntwo\nthree\n" {
		t.Errorf("the file has %q", got)
	}
	do[Written](t, s, "file_write", at("/tmp/place/b.bin", args{"content": "AP/+", "base64": true}))
	if got := do[FilePart](t, s, "file_read", at("/tmp/place/b.bin", nil)); string(got.Base64) != "\x00\xff\xfe" {
		t.Errorf("it reads %+v", got)
	}
	first := do[FilePart](t, s, "file_read", at("/tmp/place/a.txt", args{"max_bytes": 4}))
	if first.Text != "one\n" || !first.Truncated {
		t.Errorf("the first is %+v", first)
	}
	if rest := do[FilePart](t, s, "file_read", at("/tmp/place/a.txt", args{"offset": first.NextOffset})); rest.Text != "two\nthree\n" || rest.Truncated {
		t.Errorf("the rest is %+v", rest)
	}
	do[Edited](t, s, "file_edit", at("/tmp/place/a.txt", args{"old": "two", "new": "2"}))
	if got := shell(t, s, id, "cat /tmp/place/a.txt; test -x /tmp/place/a.txt && echo runs"); got != "one\n2\nthree\nruns\n" {
		t.Errorf("the file has %q", got)
	}
	if f := refuse(t, s, "conflict", "file_edit", at("/tmp/place/a.txt", args{"old": "two", "new": "2"})); f.Field != "old" || f.Next.Tool != "file_read" {
		t.Errorf("%+v", f)
	}
	refuse(t, s, "conflict", "file_edit", at("/tmp/place/a.txt", args{"old": "e", "new": "E"}))
	if got := do[Edited](t, s, "file_edit", at("/tmp/place/a.txt", args{"old": "e", "new": "E", "all": true})); got.Replaced != 3 {
		t.Errorf("%+v", got)
	}
	if list := do[Files](t, s, "file_list", at("/tmp/place", nil)); len(list.Files) != 3 {
		t.Errorf("there are %+v", list)
	}
	if f := do[File](t, s, "file_stat", at("/tmp/place/a.txt", nil)); f.Type != "file" || f.Bytes != 12 {
		t.Errorf("it is %+v", f)
	}
	if got := do[Matches](t, s, "file_search", at("/tmp/place", args{"pattern": "^thr", "glob": "*.txt"})); len(got.Matches) != 1 || got.Matches[0].Line != 3 || got.Searched != 1 {
		t.Errorf("found is %+v", got)
	}
	if got := do[Matches](t, s, "file_search", at("/tmp/place", args{"glob": "b*"})); len(got.Matches) != 1 || got.Matches[0].Path != "/tmp/place/b.bin" {
		t.Errorf("found is %+v", got)
	}
	refuse(t, s, "invalid", "file_search", at("/tmp/place", args{"pattern": "("}))
	do[Done](t, s, "file_move", args{"sandbox": id, "from": "/tmp/place/a.txt", "to": "/tmp/place/deep/c.txt"})
	do[Done](t, s, "file_remove", at("/tmp/place/b.bin", nil))
	refuse(t, s, "not_found", "file_remove", at("/tmp/place/b.bin", nil))
	if got := shell(t, s, id, "cd /tmp/place && find . -type f"); got != "./deep/c.txt\n" {
		t.Errorf("left is %q", got)
	}
	if f := refuse(t, s, "not_found", "file_read", at("/tmp/place/gone", nil)); f.Next.Tool != "file_list" || f.Next.Arguments["path"] != "/tmp/place" {
		t.Errorf("what to do about a file that is not there: %+v", f.Next)
	}
}

func (h *house) tryBranches(t *testing.T, s *Session, id string) {
	code := func(id, code string) CodeResult {
		t.Helper()
		return do[CodeResult](t, s, "code_run", args{"sandbox": id, "language": "python", "code": code})
	}
	code(id, "import random; y = 1")
	children := do[Sandboxes](t, s, "sandbox_fork", args{"sandbox": id, "count": 2}).Sandboxes
	if len(children) != 2 || children[0].Parent != id {
		t.Fatalf("the children are %+v", children)
	}
	var drawn []string
	for _, child := range children {
		got := code(child.ID, "y += 1; (y, random.random())")
		if got.Fresh || got.Value[:3] != "(2," {
			t.Errorf("the child's interpreter says %+v", got)
		}
		drawn = append(drawn, got.Value)
		do[Done](t, s, "sandbox_destroy", args{"sandbox": child.ID})
	}
	if drawn[0] == drawn[1] {
		t.Errorf("both children draw %s", drawn[0])
	}
	shot := do[Snapshot](t, s, "snapshot_create", args{"sandbox": id, "name": "before"})
	mark := do[Mark](t, s, "sandbox_mark", args{"sandbox": id, "name": "here"})
	shell(t, s, id, "echo spoiled > /tmp/kept")
	code(id, "y = 99")
	do[Sandbox](t, s, "sandbox_rollback", args{"sandbox": id, "mark": mark.Mark})
	if got := code(id, "y"); got.Value != "1" || got.Fresh || shell(t, s, id, "cat /tmp/kept") != "kept\n" {
		t.Errorf("after the roll back to a mark: %+v", got)
	}
	code(id, "y = 98")
	do[Sandbox](t, s, "sandbox_rollback", args{"sandbox": id, "snapshot": shot.ID})
	if got := code(id, "y"); got.Value != "1" || got.Fresh {
		t.Errorf("after the roll back to a snapshot: %+v", got)
	}
	if list := do[Snapshots](t, s, "snapshot_list", args{"sandbox": id}); len(list.Snapshots) != 1 || list.Snapshots[0].Name != "before" {
		t.Errorf("the snapshots are %+v", list)
	}
	restored := do[Sandbox](t, s, "snapshot_restore", args{"snapshot": shot.ID})
	if got := code(restored.ID, "y + 10"); got.Value != "11" || restored.ID == id {
		t.Errorf("the restored one says %+v", got)
	}
	do[Done](t, s, "sandbox_destroy", args{"sandbox": restored.ID})
	do[Done](t, s, "snapshot_delete", args{"snapshot": shot.ID})
	if f := refuse(t, s, "not_found", "snapshot_restore", args{"snapshot": shot.ID}); f.Next.Tool != "snapshot_list" {
		t.Errorf("%+v", f)
	}
	if f := refuse(t, s, "not_found", "sandbox_rollback", args{"sandbox": id, "mark": "nowhere"}); f.Next.Tool != "snapshot_list" {
		t.Errorf("%+v", f)
	}
}

func (h *house) tryTemplates(t *testing.T, s *Session, id string) {
	made := do[Template](t, s, "template_create", args{"sandbox": id, "name": "work", "tags": []string{"new"}})
	if made.Version != 1 || made.State != "ready" {
		t.Fatalf("the template is %+v", made)
	}
	do[Template](t, s, "template_set", args{"template": "work", "ahead": 1, "tags": []string{"good"}})
	list := do[Templates](t, s, "template_list", args{})
	if len(list.Templates) != 1 || list.Templates[0].Ahead != 1 || list.Templates[0].Tags[0] != "good" {
		t.Errorf("the templates are %+v", list)
	}
	child := do[Sandbox](t, s, "sandbox_create", args{"template": "work:good"})
	if got := shell(t, s, child.ID, "cat /tmp/kept"); got != "kept\n" {
		t.Errorf("the child has %q", got)
	}
	do[Done](t, s, "sandbox_destroy", args{"sandbox": child.ID})
	do[Done](t, s, "template_delete", args{"template": "work"})
	if f := refuse(t, s, "not_found", "sandbox_create", args{"template": "work"}); f.Class != "not_found" {
		t.Errorf("%+v", f)
	}
}
