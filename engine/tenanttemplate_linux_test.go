package engine_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"aether/engine"
	"aether/engine/access"
	"aether/interpreter"
	"aether/sandbox"
)

// countingRequest is a template of a program that counts.
func countingRequest(name string) engine.TemplateRequest {
	return engine.TemplateRequest{Recipe: engine.Recipe{Name: name, Run: [][]string{{"sh", "-c", "echo prepared >> /tmp/log"}},
		Command: []string{"sh", "-c", "n=40; echo up; while read l; do n=$((n+l)); echo $n; done"}, Ready: engine.Ready{Line: "up"}}}
}

func declare(t testing.TB, e *engine.Engine, who engine.Caller, req engine.TemplateRequest) engine.TemplateInfo {
	t.Helper()
	info, err := e.PrepareTemplate(t.Context(), who, req, nil)
	if err != nil {
		t.Fatal(err)
	}
	return info
}

// runs runs code in the interpreter that a template left running.
func runs(t testing.TB, e *engine.Engine, who engine.Caller, s engine.Sandbox, code string) string {
	t.Helper()
	client, release, err := e.Guest(t.Context(), who, s.ID)
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	context, err := interpreter.Attach(t.Context(), client, *s.Resident.Interpreter, interpreter.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer context.Detach()
	result, err := context.Run(t.Context(), code, interpreter.Handler{})
	if err != nil || result.Error != nil {
		t.Fatalf("%s: %+v, %v", code, result, err)
	}
	if main := result.Main(); main != nil {
		return main.Text
	}
	return strings.TrimSpace(result.Logs.Stdout)
}

func bashRequest(name, code string) engine.TemplateRequest {
	return engine.TemplateRequest{Recipe: engine.Recipe{Name: name, Code: &engine.Code{Language: interpreter.Bash, Source: code}}}
}

// TestSandboxOfATemplate: a sandbox that is made of a template is one like any other, and
// goes on from where the template is.
func TestSandboxOfATemplate(t *testing.T) {
	e := newHouse(t, sandbox.Checkpoint).open()
	var steps []string
	info, err := e.PrepareTemplate(t.Context(), alice, bashRequest("sums", "x=41; echo $x > /tmp/x"), func(step string) { steps = append(steps, step) })
	if err != nil {
		t.Fatal(err)
	}
	if info.State != engine.TemplateReady || info.Version != 1 || !info.Latest || info.Driver != "cell" || info.Resident.Interpreter == nil || len(steps) != 4 {
		t.Errorf("%+v after %q", info, steps)
	}
	s := create(t, e, alice, engine.CreateRequest{Template: "sums", Metadata: map[string]string{"for": "me"}})
	if s.Template != "sums@1" || s.Parent != info.ID || s.Took <= 0 || s.Metadata["for"] != "me" || s.State != engine.Running {
		t.Errorf("%+v", s)
	}
	if got := runs(t, e, alice, s, "echo $((x+1))"); got != "42" {
		t.Errorf("it says %q", got)
	}
	if got := sh(t, e, alice, s.ID, "cat /tmp/x"); got != "41" {
		t.Errorf("its file has %q", got)
	}
	if got := kinds(t, e, s.ID); got != "created started" {
		t.Errorf("its events are %s", got)
	}
	children, err := e.Fork(t.Context(), alice, s.ID, engine.ForkRequest{})
	if err != nil || children[0].Template != "sums@1" || runs(t, e, alice, children[0], "echo $((x+2))") != "43" {
		t.Errorf("its child: %+v, %v", children, err)
	}
	tree, err := e.TemplateTree(t.Context(), alice, "sums")
	if err != nil || len(tree) != 3 || tree[0].ID != info.ID || tree[2].Parent != s.ID {
		t.Errorf("the tree is %+v, %v", tree, err)
	}
	_, err = e.Create(t.Context(), alice, engine.CreateRequest{Template: "sums", Volumes: []engine.VolumeMount{{Name: "v", Target: "/v"}}})
	wantClass(t, err, sandbox.Invalid)
	page, err := e.List(t.Context(), alice, engine.Query{Template: "sums"})
	if err != nil || len(page.Sandboxes) != 2 {
		t.Errorf("%+v, %v", page, err)
	}
	paused, err := e.Pause(t.Context(), alice, s.ID, "")
	if err == nil {
		paused, err = e.Resume(t.Context(), alice, s.ID, "")
	}
	if err != nil || runs(t, e, alice, paused, "echo $((x+3))") != "44" {
		t.Errorf("after a pause: %+v, %v", paused, err)
	}
	if err := e.Destroy(t.Context(), alice, s.ID); err != nil {
		t.Error(err)
	}
	if now, err := e.GetTemplate(t.Context(), alice, "sums"); err != nil || now.Forks != 2 || now.Living != 1 || now.Stats == nil {
		t.Errorf("%+v, %v", now, err)
	}
}

// TestTemplatesOfOthers: what is another tenant's does not exist.
func TestTemplatesOfOthers(t *testing.T) {
	e := newHouse(t, sandbox.Filesystem).open()
	mine := declare(t, e, alice, countingRequest("mine"))
	s := create(t, e, alice, engine.CreateRequest{Template: "mine"})
	for _, ref := range []string{"mine", "mine@1", mine.ID} {
		_, err := e.GetTemplate(t.Context(), bob, ref)
		wantClass(t, err, sandbox.NotFound)
		_, err = e.Create(t.Context(), bob, engine.CreateRequest{Template: ref})
		wantClass(t, err, sandbox.NotFound)
		_, err = e.TemplateTree(t.Context(), bob, ref)
		wantClass(t, err, sandbox.NotFound)
		_, err = e.ChangeTemplate(t.Context(), bob, ref, engine.TemplateChange{Tags: []string{"x"}})
		wantClass(t, err, sandbox.NotFound)
		wantClass(t, e.RemoveTemplate(t.Context(), bob, ref), sandbox.NotFound)
	}
	_, err := e.Promote(t.Context(), bob, s.ID, engine.PromoteRequest{Name: "stolen"})
	wantClass(t, err, sandbox.NotFound)
	for _, who := range []engine.Caller{bob, {Tenant: "bob", Name: "again"}} {
		if page, err := e.ListTemplates(t.Context(), who, engine.TemplateQuery{Tenant: "alice"}); err != nil || len(page.Templates) != 0 {
			t.Errorf("bob sees %+v, %v", page, err)
		}
	}
	if info, err := e.GetTemplate(t.Context(), root, mine.ID); err != nil || info.Tenant != "alice" {
		t.Errorf("an operator sees %+v, %v", info, err)
	}
	if own := declare(t, e, bob, countingRequest("mine")); own.Version != 1 || own.ID == mine.ID {
		t.Errorf("bob's own is %+v", own)
	}
}

// TestVersionsAndTags: what each way of asking means, and when a version goes.
func TestVersionsAndTags(t *testing.T) {
	e := newHouse(t, sandbox.Filesystem).open()
	says := func(ref string) string {
		t.Helper()
		s, err := e.Create(t.Context(), alice, engine.CreateRequest{Template: ref})
		if err != nil {
			return sandbox.ClassOf(err).String()
		}
		return runs(t, e, alice, s, "echo $v")
	}
	make := func(v string, tags ...string) engine.TemplateInfo {
		req := bashRequest("app", "v="+v)
		req.Tags = tags
		return declare(t, e, alice, req)
	}
	check := func(when string, want map[string]string) {
		t.Helper()
		for ref, v := range want {
			if got := says(ref); got != v {
				t.Errorf("%s, %s is %s and not %s", when, ref, got, v)
			}
		}
	}
	make("one", "stable")
	make("two")
	check("with two", map[string]string{"app": "two", "app:stable": "one", "app@1": "one", "app@2": "two", "app:other": "not_found", "app@9": "not_found"})
	make("three")
	check("with three", map[string]string{"app": "three", "app:stable": "one", "app@2": "not_found"})
	if _, err := e.ChangeTemplate(t.Context(), alice, "app@3", engine.TemplateChange{Tags: []string{"stable", "new"}}); err != nil {
		t.Error(err)
	}
	check("with moved tags", map[string]string{"app:stable": "three", "app:new": "three", "app@1": "not_found"})

	req := bashRequest("app", "v=no")
	req.Version = 1
	_, err := e.PrepareTemplate(t.Context(), alice, req, nil)
	wantClass(t, err, sandbox.Conflict)
	_, err = e.PrepareTemplate(t.Context(), alice, bashRequest("app", "false"), nil)
	wantClass(t, err, sandbox.Conflict)
	check("after failures", map[string]string{"app": "three", "app:stable": "three"})
	for _, ref := range []string{"App", "app@0", "app@01", "app:", "app@", "", "app:-a"} {
		if ref != "" {
			_, err := e.Create(t.Context(), alice, engine.CreateRequest{Template: ref})
			wantClass(t, err, sandbox.Invalid)
		}
	}
	if err := e.RemoveTemplate(t.Context(), alice, "app"); err != nil {
		t.Error(err)
	}
	check("after the end", map[string]string{"app": "not_found", "app:stable": "not_found"})
	wantClass(t, e.RemoveTemplate(t.Context(), alice, "app"), sandbox.NotFound)
	if used, _, err := e.Used(t.Context(), alice, "alice"); err != nil || used.Sandboxes != int64(len(living(t, e, alice))) {
		t.Errorf("removed templates take %+v, %v", used, err)
	}
}

func living(t testing.TB, e *engine.Engine, who engine.Caller) []engine.Sandbox {
	t.Helper()
	page, err := e.List(t.Context(), who, engine.Query{States: []engine.State{engine.Running, engine.Paused}})
	if err != nil {
		t.Fatal(err)
	}
	return page.Sandboxes
}

// TestOneBuild: who prepares the same at once waits for one build, which goes on as long as
// anybody waits.
func TestOneBuild(t *testing.T) {
	e := newHouse(t, sandbox.Filesystem).open()
	dir := t.TempDir()
	req := countingRequest("one")
	req.Recipe.Spec.Mounts = []sandbox.Mount{{Source: dir, Target: "/mnt"}}
	req.Recipe.Run = [][]string{{"sh", "-c", "until [ -e /mnt/go ]; do echo waiting; sleep 0.05; done"}}
	first, gone := context.WithCancel(t.Context())
	began := make(chan struct{})
	var once sync.Once
	given := make(chan error, 1)
	go func() {
		_, err := e.PrepareTemplate(first, root, req, func(string) { once.Do(func() { close(began) }) })
		given <- err
	}()
	<-began
	var all sync.WaitGroup
	var ids sync.Map
	var told [4]atomic.Int64
	for n := range told {
		all.Go(func() {
			own := req
			own.Tags = []string{fmt.Sprint("t", n)}
			info, err := e.PrepareTemplate(t.Context(), root, own, func(string) { told[n].Add(1) })
			if err != nil {
				t.Error(err)
			}
			ids.Store(info.ID, info.Version)
		})
	}
	everybody := func() bool {
		for n := range told {
			if told[n].Load() == 0 {
				return false
			}
		}
		return true
	}
	if !eventually(everybody) {
		t.Error("not everybody is told of what is done")
	}
	gone()
	if err := <-given; !errors.Is(err, context.Canceled) {
		t.Errorf("who gave up got %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "go"), nil, 0o644); err != nil {
		t.Error(err)
	}
	all.Wait()
	n := 0
	ids.Range(func(_, version any) bool { n++; return version == 1 })
	info, err := e.GetTemplate(t.Context(), root, "one")
	if n != 1 || err != nil || info.Version != 1 || !slices.Equal(info.Tags, []string{"t0", "t1", "t2", "t3"}) {
		t.Errorf("%d builds, %+v, %v", n, info, err)
	}
}

// TestGivenUpPreparation: with the last who waits, a preparation ends and leaves nothing.
func TestGivenUpPreparation(t *testing.T) {
	e := newHouse(t, sandbox.Filesystem).open()
	req := countingRequest("never")
	req.Recipe.Run = nil // for what a command leaves is kept
	req.Recipe.Ready = engine.Ready{File: "/never"}
	ctx, cancel := context.WithCancel(t.Context())
	_, err := e.PrepareTemplate(ctx, alice, req, func(step string) {
		if step == engine.StepReady {
			if info, err := e.GetTemplate(ctx, alice, "never"); err != nil || info.State != engine.TemplatePreparing {
				t.Errorf("meanwhile %+v, %v", info, err)
			}
			cancel()
		}
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if page, err := e.ListTemplates(t.Context(), alice, engine.TemplateQuery{}); err != nil || len(page.Templates) > 0 {
		t.Errorf("%+v, %v is left", page, err)
	}
	if used, _, err := e.Used(t.Context(), alice, "alice"); err != nil || used != (access.Use{}) {
		t.Errorf("it takes %+v, %v", used, err)
	}
}

// TestTemplateKey: the same key is the same version.
func TestTemplateKey(t *testing.T) {
	e := newHouse(t, sandbox.Filesystem).open()
	req := countingRequest("keyed")
	req.Key = "k"
	a, b := declare(t, e, alice, req), declare(t, e, alice, req)
	if a.ID != b.ID || b.Version != 1 {
		t.Errorf("%+v, %+v", a, b)
	}
	req.Tags = []string{"other"}
	_, err := e.PrepareTemplate(t.Context(), alice, req, nil)
	wantClass(t, err, sandbox.Conflict)
}

// TestTenantPool: sandboxes come from those that are kept ready, each once, and the pool
// says when it runs low.
func TestTenantPool(t *testing.T) {
	h := newHouse(t, sandbox.Filesystem)
	h.access.Default.Quota = access.Quota{Sandboxes: new(int64(8))}
	e := h.open()
	req := countingRequest("ahead")
	req.Ahead = 4
	declare(t, e, alice, req)
	full := func(n int) {
		t.Helper()
		if !eventually(func() bool {
			i, err := e.GetTemplate(t.Context(), alice, "ahead")
			return err == nil && i.Pool != nil && i.Pool.Ready == n
		}) {
			i, err := e.GetTemplate(t.Context(), alice, "ahead")
			t.Fatalf("%d never were ready: %+v %+v, %v", n, i, i.Pool, err)
		}
	}
	full(4)
	if used, _, err := e.Used(t.Context(), alice, "alice"); err != nil || used.Sandboxes != 5 {
		t.Errorf("a template and four children are %+v, %v", used, err)
	}
	seen := map[string]bool{}
	for range 4 {
		s := create(t, e, alice, engine.CreateRequest{Template: "ahead"})
		if seen[s.ID] || s.Parent == "" {
			t.Errorf("%+v was handed out twice", s)
		}
		seen[s.ID] = true
		sh(t, e, alice, s.ID, "true")
	}
	// The template, four that were handed out, and three for which the quota has room.
	full(3)
	var more []string
	for range 3 {
		more = append(more, create(t, e, alice, engine.CreateRequest{Template: "ahead"}).ID)
	}
	_, err := e.Create(t.Context(), alice, engine.CreateRequest{Template: "ahead", Spec: sandbox.Spec{Timeouts: sandbox.Timeouts{Lifetime: time.Hour}}})
	wantExhausted(t, err, "quota.sandboxes")
	for _, id := range more {
		if err := e.Destroy(t.Context(), alice, id); err != nil {
			t.Error(err)
		}
	}
	if got := kinds(t, e, ""); got != "pool_low" {
		t.Errorf("the events of the pool are %q", got)
	}
	if _, err := e.ChangeTemplate(t.Context(), alice, "ahead", engine.TemplateChange{Ahead: new(int)}); err != nil {
		t.Error(err)
	}
	if i, err := e.GetTemplate(t.Context(), alice, "ahead"); err != nil || i.Pool != nil || i.Ahead != 0 {
		t.Errorf("without a pool: %+v, %v", i, err)
	}
	if used, _, err := e.Used(t.Context(), alice, "alice"); err != nil || used.Sandboxes != 5 {
		t.Errorf("a template and four sandboxes are %+v, %v", used, err)
	}
}

// TestPromote: a sandbox becomes a template while it goes on.
func TestPromote(t *testing.T) {
	e := newHouse(t, sandbox.Checkpoint).open()
	declare(t, e, alice, bashRequest("base", "x=1"))
	source := create(t, e, alice, engine.CreateRequest{Template: "base"})
	runs(t, e, alice, source, "x=2; echo two > /tmp/file")
	info, err := e.Promote(t.Context(), alice, source.ID, engine.PromoteRequest{Name: "made", Tags: []string{"first"}})
	if err != nil {
		t.Fatal(err)
	}
	if info.Source != source.ID || info.State != engine.TemplateReady || info.Reason != "" || info.Resident.Interpreter == nil {
		t.Errorf("%+v", info)
	}
	runs(t, e, alice, source, "x=3")
	child := create(t, e, alice, engine.CreateRequest{Template: "made:first"})
	if got := runs(t, e, alice, child, "echo $x $(cat /tmp/file)"); got != "2 two" {
		t.Errorf("the child says %q", got)
	}
	if got := runs(t, e, alice, source, "echo $x"); got != "3" {
		t.Errorf("the source says %q", got)
	}
	plain := create(t, e, alice, engine.CreateRequest{})
	sh(t, e, alice, plain.ID, "echo plain > /tmp/file")
	if _, err := e.Promote(t.Context(), alice, plain.ID, engine.PromoteRequest{Name: "plain"}); err != nil {
		t.Error(err)
	}
	if child := create(t, e, alice, engine.CreateRequest{Template: "plain"}); sh(t, e, alice, child.ID, "cat /tmp/file") != "plain" {
		t.Errorf("%+v", child)
	}
}

// TestTemplateOfTooMuch: what the tenant may not ask of a sandbox it may not ask of a
// template, nor of a sandbox that is made of one.
func TestTemplateOfTooMuch(t *testing.T) {
	e := newHouse(t, sandbox.Filesystem).open()
	req := countingRequest("much")
	req.Recipe.Spec.Mounts = []sandbox.Mount{{Source: "/etc", Target: "/mnt"}}
	_, err := e.PrepareTemplate(t.Context(), alice, req, nil)
	wantClass(t, err, sandbox.Denied)
	declare(t, e, alice, countingRequest("little"))
	_, err = e.Create(t.Context(), alice, engine.CreateRequest{Template: "little", Spec: sandbox.Spec{Network: sandbox.Network{Mode: sandbox.HostNetwork}}})
	wantClass(t, err, sandbox.Denied)
	for field, spec := range map[string]sandbox.Spec{"spec.image": {Image: "host"}, "spec.mounts": {Mounts: []sandbox.Mount{{Source: "/a", Target: "/b"}}},
		"spec.command": {Command: sandbox.CommandDefaults{User: "1"}}} {
		_, err := e.Create(t.Context(), alice, engine.CreateRequest{Template: "little", Spec: spec})
		wantInvalid(t, err, field)
	}
}
