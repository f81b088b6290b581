package control

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"aether/engine"
	"aether/guest"
	"aether/lab"
	"aether/sandbox"
	"aether/tool"
)

// maxSandboxes is the quota that the policy is shown by: the sandbox and its fork, so that
// a system that boots for seconds need not do so once more.
const maxSandboxes = 2

// through has an engine with the system alone do what agents do, by their tools.
func through(ctx context.Context, s lab.System, dir string) (_ findings, err error) {
	if dir, err = os.MkdirTemp(dir, "lab-engine-"); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	opts := engine.Options{State: filepath.Join(dir, "state"), Drivers: []sandbox.Maker{{Name: s.Name, New: s.New}}, Logger: slog.New(slog.DiscardHandler)}
	most := int64(maxSandboxes)
	opts.Access.Default.Quota.Sandboxes = &most
	// Not every system bounds memory, or what is written, for every user on every host.
	opts.Access.Default.Policy.UnboundedMemory, opts.Access.Default.Policy.UnboundedDisk = true, true
	e, err := engine.Open(opts)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, e.Close(context.WithoutCancel(ctx))) }()
	who := engine.Caller{Tenant: "lab"}
	session, err := tool.New(tool.Options{Backend: tool.OfEngine(e, who, nil), Own: true, Reveal: true, Logger: opts.Logger})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, session.Close(ctx)) }()
	a := &agent{engine: e, who: who, session: session, found: findings{}}
	return a.found, a.work(ctx)
}

// agent does what agents do.
type agent struct {
	engine  *engine.Engine
	who     engine.Caller
	session *tool.Session
	id      string
	found   findings
}

func (a *agent) show(fact string, holds bool, format string, args ...any) {
	a.found[fact] = shown{holds, fmt.Sprintf(format, args...)}
}

// call calls a tool and gives what it answers, as JSON.
func (a *agent) call(ctx context.Context, name string, args map[string]any) (answer map[string]any, failure *tool.Failure, err error) {
	text, err := json.Marshal(args)
	if err != nil {
		return nil, nil, err
	}
	result := a.session.Do(ctx, name, text)
	if result.Failure != nil {
		return nil, result.Failure, nil
	}
	if text, err = json.Marshal(result.Value); err == nil {
		err = json.Unmarshal(text, &answer)
	}
	return answer, nil, err
}

func (a *agent) work(ctx context.Context) error {
	answer, failure, err := a.call(ctx, "sandbox_create", nil)
	if err != nil {
		return err
	}
	if failure != nil {
		return fmt.Errorf("sandbox_create: %s: %s", failure.Class, failure.Reason)
	}
	a.id = fmt.Sprint(answer["sandbox"])
	a.show(Create, a.id != "", "the tool sandbox_create made %s on %v", a.id, answer["driver"])
	for _, step := range []func(context.Context) error{a.exec, a.files, a.schema, a.errors, a.snapshot, a.fork, a.events, a.policy} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// arrival says when the first byte has come.
type arrival struct {
	bytes.Buffer
	first chan struct{}
}

func (w *arrival) Write(p []byte) (int, error) {
	if w.Len() == 0 && len(p) > 0 {
		close(w.first)
	}
	return w.Buffer.Write(p)
}

// firstLineTime is how long a command waits for its first line to be seen.
const firstLineTime = 10 * time.Second

// exec has a command write, wait until that was seen, and write again.
func (a *agent) exec(ctx context.Context) error {
	client, release, err := a.engine.Guest(ctx, a.who, a.id)
	if err != nil {
		return err
	}
	defer release()
	out := arrival{first: make(chan struct{})}
	keys, seen := io.Pipe()
	defer seen.Close()
	running, err := client.Start(ctx, guest.Cmd{Path: "sh", Args: []string{"-c", "echo one; read -r _; echo two"}, Stdin: keys, Stdout: &out})
	if err != nil {
		return err
	}
	early := make(chan bool, 1)
	go func() { // while Wait reads
		defer seen.Close()
		select {
		case <-out.first:
			early <- true
		case <-time.After(firstLineTime):
			early <- false
		}
	}()
	status, err := running.Wait()
	streamed := <-early
	a.show(Exec, err == nil && out.String() == "one\ntwo\n" && streamed,
		"the first line of a command came before its end: %v; it wrote %q and ended with %d", streamed, out.String(), status.Code)
	return err
}

func (a *agent) files(ctx context.Context) error {
	const text = "written by the lab"
	_, failure, err := a.call(ctx, "file_write", map[string]any{"sandbox": a.id, "path": "/tmp/lab.txt", "content": text})
	if err != nil {
		return err
	}
	if failure != nil {
		a.show(Files, false, "file_write: %s: %s", failure.Class, failure.Reason)
		return nil
	}
	answer, failure, err := a.call(ctx, "file_read", map[string]any{"sandbox": a.id, "path": "/tmp/lab.txt"})
	if failure != nil {
		a.show(Files, false, "file_read: %s: %s", failure.Class, failure.Reason)
		return err
	}
	a.show(Files, strings.Contains(fmt.Sprint(answer), text), "file_write, then file_read gives %.120q", fmt.Sprint(answer))
	return err
}

// schema shows that tools can be listed, that each has a schema, and that the schema holds:
// an argument that it does not have is refused.
func (a *agent) schema(ctx context.Context) error {
	tools := a.session.Tools()
	described := 0
	for _, t := range tools {
		if schema := t.InputSchema(); schema != nil && schema.Type == "object" && t.Description != "" {
			described++
		}
	}
	a.show(Tools, len(tools) > 0, "the session lists %d tools", len(tools))
	_, failure, err := a.call(ctx, "sandbox_get", map[string]any{"sandbox": a.id, "no_such_argument": 1})
	refused := failure != nil && failure.Class == sandbox.Invalid.String()
	a.show(Schema, described == len(tools) && refused, "%d of %d tools have a JSON schema; sandbox_get refuses an argument that its schema has not: %v", described, len(tools), refused)
	return err
}

func (a *agent) errors(ctx context.Context) error {
	_, failure, err := a.call(ctx, "sandbox_get", map[string]any{"sandbox": "no-such-sandbox"})
	if failure == nil {
		a.show(Errors, false, "sandbox_get of one that is not there fails with nothing")
		return err
	}
	a.show(Errors, failure.Class == sandbox.NotFound.String() && failure.Remedy != "", "sandbox_get of one that is not there: class %s, retry %v, remedy %q", failure.Class, failure.Retry, failure.Remedy)
	return err
}

func (a *agent) snapshot(ctx context.Context) error {
	answer, failure, err := a.call(ctx, "snapshot_create", map[string]any{"sandbox": a.id})
	if failure != nil && failure.Class == sandbox.Unsupported.String() {
		answer, failure, err = a.call(ctx, "snapshot_create", map[string]any{"sandbox": a.id, "files_only": true})
	}
	if failure != nil {
		a.show(Snapshot, false, "snapshot_create: %s: %s", failure.Class, failure.Reason)
		return err
	}
	a.show(Snapshot, answer["snapshot"] != nil, "snapshot_create keeps %v as %v", answer["holds"], answer["snapshot"])
	return err
}

func (a *agent) fork(ctx context.Context) error {
	answer, failure, err := a.call(ctx, "sandbox_fork", map[string]any{"sandbox": a.id})
	if failure != nil {
		a.show(Fork, false, "sandbox_fork: %s: %s", failure.Class, failure.Reason)
		return err
	}
	list, _ := answer["sandboxes"].([]any)
	a.show(Fork, len(list) == 1, "sandbox_fork made %d", len(list))
	return err
}

func (a *agent) events(ctx context.Context) error {
	over, cancel := context.WithCancel(ctx)
	cancel() // the history alone
	for event, err := range a.engine.Events(over, a.who, 0) {
		if err != nil {
			return err
		}
		if event.Sandbox == a.id {
			a.show(Events, true, "the engine's events have number %d, %s of %s", event.Number, event.Kind, a.id)
			return nil
		}
	}
	a.show(Events, false, "the engine's events have none of %s", a.id)
	return nil
}

// policy makes more sandboxes than the quota allows.
func (a *agent) policy(ctx context.Context) error {
	for made := range maxSandboxes + 1 {
		_, failure, err := a.call(ctx, "sandbox_create", nil)
		if err != nil {
			return err
		}
		if failure != nil {
			a.show(Policy, failure.Class == sandbox.Exhausted.String(), "with a quota of %d sandboxes, one more after %d is refused: %s", maxSandboxes, made, failure.Class)
			return nil
		}
	}
	a.show(Policy, false, "with a quota of %d sandboxes, more are made", maxSandboxes)
	return nil
}
