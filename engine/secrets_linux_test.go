package engine_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"aether/engine"
	"aether/engine/access"
	"aether/sandbox"
)

// hush is in the value of every secret of these tests.
const hush = "hush-7b1c9e"

func secretValue(t testing.TB, text string) engine.SecretValue {
	t.Helper()
	v, err := engine.NewSecretValue([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func setSecret(t testing.TB, e *engine.Engine, who engine.Caller, name, text string, hosts ...string) {
	t.Helper()
	if _, err := e.SetSecret(t.Context(), who, engine.SecretRequest{Name: name, Value: secretValue(t, text), Hosts: hosts}); err != nil {
		t.Fatal(err)
	}
}

func wantSecret(t testing.TB, e *engine.Engine, tenant, name, text string) {
	t.Helper()
	if v, _, err := e.SecretValue(tenant, name); err != nil || string(v.Reveal()) != text {
		t.Errorf("%s's %s is %q, %v", tenant, name, v.Reveal(), err)
	}
}

// TestSecretsAreTheirTenants: nobody sees, sets or removes another's, but for operators, and
// the same name is another secret for each.
func TestSecretsAreTheirTenants(t *testing.T) {
	h := newHouse(t, sandbox.Filesystem)
	e := h.open()
	for _, name := range []string{"B", "A", "c"} {
		setSecret(t, e, alice, name, hush+name, "api.example.com")
	}
	setSecret(t, e, bob, "A", hush+"bob")
	for _, tenant := range []string{"alice", "nobody"} {
		_, err := e.SetSecret(t.Context(), bob, engine.SecretRequest{Tenant: tenant, Name: "A", Value: secretValue(t, hush)})
		wantClass(t, err, sandbox.NotFound)
		wantClass(t, e.RemoveSecret(t.Context(), bob, tenant, "A"), sandbox.NotFound)
	}
	wantClass(t, e.RemoveSecret(t.Context(), bob, "", "B"), sandbox.NotFound)
	_, _, err := e.SecretValue("bob", "B")
	wantClass(t, err, sandbox.NotFound)
	if page, err := e.Secrets(t.Context(), bob, engine.SecretQuery{Tenant: "alice"}); err != nil || len(page.Secrets) > 0 {
		t.Errorf("%+v, %v", page, err)
	}
	h.close(e)
	e = h.open()
	if got := secretNames(t, e, root, engine.SecretQuery{Limit: 2}); got != "alice/A alice/B alice/c bob/A " {
		t.Errorf("an operator sees %s", got)
	}
	if got := secretNames(t, e, bob, engine.SecretQuery{}); got != "bob/A " {
		t.Errorf("bob sees %s", got)
	}
	wantSecret(t, e, "alice", "A", hush+"A")
	wantSecret(t, e, "bob", "A", hush+"bob")
	made, err := e.SetSecret(t.Context(), root, engine.SecretRequest{Tenant: "alice", Name: "A", Value: secretValue(t, hush+"new")})
	if err != nil || made.Tenant != "alice" || fmt.Sprint(made.Hosts) != "[api.example.com]" {
		t.Errorf("%+v, %v", made, err)
	}
	wantSecret(t, e, "alice", "A", hush+"new")
	if err := e.RemoveSecret(t.Context(), root, "alice", "A"); err != nil {
		t.Error(err)
	}
	wantSecret(t, e, "bob", "A", hush+"bob")
}

func secretNames(t testing.TB, e *engine.Engine, who engine.Caller, q engine.SecretQuery) (names string) {
	t.Helper()
	for {
		page, err := e.Secrets(t.Context(), who, q)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range page.Secrets {
			names += s.Tenant + "/" + s.Name + " "
		}
		if q.After = page.Next; page.Next == "" {
			return names
		}
	}
}

// TestSecretsAreCounted in the quota of their tenant, also after a restart and for
// operators; without one there are as many as by default.
func TestSecretsAreCounted(t *testing.T) {
	h := quotaHouse(t, sandbox.Filesystem, access.Quota{Secrets: new(int64(2))})
	e := h.open()
	setSecret(t, e, alice, "A", hush)
	setSecret(t, e, alice, "B", hush)
	setSecret(t, e, alice, "B", hush+"2")
	h.close(e)
	e = h.open()
	for _, who := range []engine.Caller{alice, root} {
		_, err := e.SetSecret(t.Context(), who, engine.SecretRequest{Tenant: "alice", Name: "C", Value: secretValue(t, hush)})
		wantExhausted(t, err, "quota.secrets")
	}
	if used, quota, err := e.Used(t.Context(), alice, "alice"); err != nil || used.Secrets != 2 || *quota.Secrets != 2 {
		t.Errorf("%+v, %+v, %v", used, quota, err)
	}
	if err := e.RemoveSecret(t.Context(), alice, "", "A"); err != nil {
		t.Fatal(err)
	}
	setSecret(t, e, alice, "C", hush)
	if err := e.SetAccess(openAccess); err != nil {
		t.Fatal(err)
	}
	for n := range access.DefaultSecrets - 2 {
		setSecret(t, e, alice, fmt.Sprintf("N%d", n), hush)
	}
	_, err := e.SetSecret(t.Context(), alice, engine.SecretRequest{Name: "more", Value: secretValue(t, hush)})
	wantExhausted(t, err, "quota.secrets")
	setSecret(t, e, bob, "more", hush)
}

// TestValuesStayHidden makes every kind of failure happen, and then finds the value in no
// file of the state directory, no line of the log and no error.
func TestValuesStayHidden(t *testing.T) {
	h := newHouse(t, sandbox.Filesystem)
	var log bytes.Buffer
	var full atomic.Bool
	opts := h.options().BeforeWrite(func() error {
		if full.Load() {
			return syscall.ENOSPC
		}
		return nil
	})
	opts.Logger = slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	e, err := engine.Open(opts)
	if err != nil {
		t.Fatal(err)
	}
	key := filepath.Join(h.dir, "state", "secret.key")
	fails := func(want sandbox.Class, who engine.Caller, req engine.SecretRequest) {
		t.Helper()
		began := time.Now()
		_, err := e.SetSecret(t.Context(), who, req)
		wantClass(t, err, want)
		if strings.Contains(fmt.Sprintf("%v %+v %#v", err, err, err), hush) {
			t.Errorf("it is in %v", err)
		}
		slog.New(opts.Logger.Handler()).Error("failed", "err", err, "request", req)
		e.Record(who, "", "secret.set", req.Name, began, err)
	}
	good := engine.SecretRequest{Name: "A", Value: secretValue(t, hush), Hosts: []string{"api.example.com"}}
	with := func(change func(*engine.SecretRequest)) engine.SecretRequest {
		req := good
		change(&req)
		return req
	}
	setSecret(t, e, alice, "A", hush)
	fails(sandbox.Invalid, alice, with(func(r *engine.SecretRequest) { r.Name = "" }))
	fails(sandbox.Invalid, alice, with(func(r *engine.SecretRequest) { r.Hosts = []string{"*"} }))
	fails(sandbox.Invalid, alice, with(func(r *engine.SecretRequest) { r.Value = engine.SecretValue{} }))
	fails(sandbox.Invalid, root, with(func(r *engine.SecretRequest) { r.Tenant = "No One" }))
	fails(sandbox.NotFound, bob, with(func(r *engine.SecretRequest) { r.Tenant = "alice" }))
	full.Store(true)
	fails(sandbox.Exhausted, alice, good)
	fails(sandbox.Exhausted, alice, with(func(r *engine.SecretRequest) { r.Name = "B" }))
	wantClass(t, e.RemoveSecret(t.Context(), alice, "", "A"), sandbox.Exhausted)
	full.Store(false)
	wantSecret(t, e, "alice", "A", hush)
	if err := os.Chmod(key, 0o644); err != nil {
		t.Fatal(err)
	}
	fails(sandbox.Unavailable, alice, good)
	if err := os.Remove(key); err != nil {
		t.Fatal(err)
	}
	setSecret(t, e, alice, "B", hush) // with a new key, of which the log is told
	_, _, err = e.SecretValue("alice", "A")
	wantClass(t, err, sandbox.Unavailable)
	h.close(e)
	fails(sandbox.Conflict, alice, good)

	if text := log.String(); strings.Contains(text, hush) || !strings.Contains(text, "a new one was made") || !strings.Contains(text, "[secret]") {
		t.Errorf("the log says\n%s", text)
	}
	hasNot(t, filepath.Join(h.dir, "state"), hush)
}

// hasNot wants a text in no file below a directory, nor in the name of one.
func hasNot(t testing.TB, dir, text string) {
	t.Helper()
	files := 0
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		files++
		contents, err := os.ReadFile(name)
		if strings.Contains(name, text) || bytes.Contains(contents, []byte(text)) {
			t.Errorf("it is in %s", name)
		}
		return err
	})
	if err != nil || files < 3 {
		t.Errorf("%d files, %v", files, err)
	}
}
