package rest_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"aether/engine"
	"aether/rest"
	"aether/sandbox"
)

// hush is in the value of every secret of these tests.
const hush = "hush-5e0d12"

func secretRequest(t testing.TB, name, text string, hosts ...string) engine.SecretRequest {
	t.Helper()
	v, err := engine.NewSecretValue([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return engine.SecretRequest{Name: name, Value: v, Hosts: hosts}
}

// TestSecretsOverHTTP: set, listed and removed by their tenant and by operators, and never
// answered with their value.
func TestSecretsOverHTTP(t *testing.T) {
	d := openUnbounded(t)
	ann, bob, ops := d.client(t, d.http, annsKey), d.client(t, d.https, bobsKey), d.client(t, d.http, operatorKey)
	made, err := ann.SetSecret(t.Context(), secretRequest(t, "API_key", hush+`"\é`, "API.example.com", "*.example.org"))
	if err != nil || made.Tenant != "ann" || made.Name != "API_key" || fmt.Sprint(made.Hosts) != "[*.example.org api.example.com]" {
		t.Fatalf("%+v, %v", made, err)
	}
	rotated, err := ann.SetSecret(t.Context(), secretRequest(t, "API_key", strings.Repeat("\x7e\t", 32<<10)))
	if err != nil || len(rotated.Hosts) != 2 || !rotated.Created.Equal(made.Created) || !rotated.Updated.After(made.Updated) {
		t.Errorf("%+v, %v", rotated, err)
	}
	open := secretRequest(t, "API_key", hush)
	open.Hosts = []string{}
	if opened, err := ann.SetSecret(t.Context(), open); err != nil || len(opened.Hosts) != 0 {
		t.Errorf("%+v, %v", opened, err)
	}
	for _, tenant := range []string{"", "ann"} {
		wantClass(t, bob.RemoveSecret(t.Context(), tenant, "API_key"), sandbox.NotFound)
	}
	other := secretRequest(t, "API_key", hush)
	other.Tenant = "ann"
	wantClass(t, refusal(bob.SetSecret(t.Context(), other)), sandbox.NotFound)
	for _, name := range []string{"", "../volumes", "a-b", "a b", "a/b"} {
		wantClass(t, refusal(ann.SetSecret(t.Context(), secretRequest(t, name, hush))), sandbox.Invalid)
		wantClass(t, ann.RemoveSecret(t.Context(), "", name), sandbox.NotFound)
	}
	wantClass(t, refusal(ann.SetSecret(t.Context(), engine.SecretRequest{Name: "A"})), sandbox.Invalid)
	if page, err := bob.Secrets(t.Context(), engine.SecretQuery{}); err != nil || page.Secrets == nil || len(page.Secrets) > 0 {
		t.Errorf("%+v, %v", page, err)
	}
	listed := d.send(t, "GET", "/v1/secrets?tenant=ann&limit=1", operatorKey, "")
	if listed.status != 200 || !strings.Contains(listed.body, "API_key") || strings.Contains(listed.body, hush) || listed.header.Get("Cache-Control") != "no-store" {
		t.Errorf("%+v", listed)
	}
	if got := d.send(t, "GET", "/v1/secrets/API_key", annsKey, ""); got.status != http.StatusMethodNotAllowed {
		t.Errorf("%+v", got)
	}
	if got := d.send(t, "GET", "/v1/secrets?driver=cell", annsKey, ""); got.status != http.StatusBadRequest {
		t.Errorf("%+v", got)
	}
	if err := ops.RemoveSecret(t.Context(), "ann", "API_key"); err != nil {
		t.Error(err)
	}
	eventually(t, func() bool { // it is written when the answer has gone
		calls := d.audited()
		last := calls[len(calls)-1]
		return last.Operation == "secret.remove" && last.Sandbox == "API_key" && last.Who.Tenant == "ops"
	})
}

// hushed is a door whose every word is kept: answers, log, audit trail and state.
type hushed struct {
	t    *testing.T
	url  string
	dir  string
	mu   sync.Mutex
	said bytes.Buffer // of the log and the answers
}

func (h *hushed) Write(text []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.said.Write(text)
}

func openHushed(t *testing.T) *hushed {
	h := &hushed{t: t, dir: filepath.Join(t.TempDir(), "state")}
	log := slog.New(slog.NewJSONHandler(h, &slog.HandlerOptions{Level: slog.LevelDebug}))
	opts := engine.Options{State: h.dir, Logger: log}
	opts.Access.Default.Quota.Secrets = new(int64(2))
	e, err := engine.Open(opts)
	if err != nil {
		t.Fatal(err)
	}
	server, err := rest.New(rest.Options{Engine: e, Logger: log, Keys: keyring{annsKey: {Tenant: "ann", Name: "ann-1"}, operatorKey: {Tenant: "ops", Operator: true, Name: "ops-1"}},
		Audit: func(c rest.Call) { e.Record(c.Who, c.From, c.Operation, c.Sandbox, c.Time, c.Err) }})
	if err != nil {
		t.Fatal(err)
	}
	over := httptest.NewServer(server)
	h.url = over.URL
	t.Cleanup(func() { // after which the audit trail is whole
		over.Close()
		if err := e.Close(context.Background()); err != nil {
			t.Error(err)
		}
		h.check()
	})
	return h
}

// ask sends a request, wants a status and keeps what is answered.
func (h *hushed) ask(status int, method, path, key, body string, headers ...string) {
	h.t.Helper()
	req, err := http.NewRequestWithContext(h.t.Context(), method, h.url+path, strings.NewReader(body))
	if err != nil {
		h.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-API-Key", key)
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		h.t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != status || res.Header.Get("Cache-Control") != "no-store" {
		h.t.Errorf("%s %.60s %.80q: %d, want %d: %s, %v", method, path, body, res.StatusCode, status, text, err)
	}
	fmt.Fprintln(h, res.Header, string(text))
}

// check wants the value nowhere, in no form that somebody could have written it in.
func (h *hushed) check() {
	files := 0
	forms := []string{hush, hush[1:], base64.StdEncoding.EncodeToString([]byte(hush))[:12], fmt.Sprintf("%x", hush), strings.Trim(fmt.Sprint([]byte(hush)), "[]")}
	look := func(where string, text []byte) {
		for _, form := range forms {
			if bytes.Contains(text, []byte(form)) {
				h.t.Errorf("%s has %s:\n%.2000s", where, form, text)
			}
		}
	}
	look("what was said", h.said.Bytes())
	err := filepath.WalkDir(h.dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		files++
		text, err := os.ReadFile(name)
		look(name, append([]byte(name), text...))
		return err
	})
	trail, unread := os.ReadFile(filepath.Join(h.dir, "audit.1"))
	if err != nil || unread != nil || files < 4 || !bytes.Contains(trail, []byte(`"what":"secret.set","on":"A","result":"ok"`)) || !bytes.Contains(trail, []byte(`"result":"invalid"`)) {
		h.t.Errorf("%d files, %v, %v, %s", files, err, unread, trail)
	}
}

// TestNoSecretIsSaid makes every kind of refusal and failure happen to a request that has a
// value in it, in the right place and in wrong ones; then no answer, no line of the log, no
// line of the audit trail and no file has the value.
func TestNoSecretIsSaid(t *testing.T) {
	h := openHushed(t)
	const path = "/v1/secrets/A"
	good := `{"value":"` + hush + `","hosts":["api.example.com"]}`
	h.ask(200, "PUT", path, annsKey, good)
	h.ask(200, "PUT", path, annsKey, good)
	for _, body := range []string{
		``, `{}`, `null`, `[]`, hush, `"` + hush + `"`, `["` + hush + `"]`, `{"` + hush + `":1}`, `{"value":{"` + hush + `":1}}`, `{"value":["` + hush + `"]}`,
		`{"value":"` + hush, `{"value":"` + hush + `"`, `{"value":"` + hush + `"} ` + hush, `{"value":"` + hush + `" ` + hush, `{"value":"` + hush + `","hosts":"` + hush + `"}`,
		`{"value":"` + hush + `","hosts":[1]}`, `{"value":"` + hush + `","hosts":["` + hush + `!"]}`, `{"value":"` + hush + `","name":"` + hush + `"}`, `{"value":"` + hush + `","` + hush + `":""}`,
		`{"value":"` + hush + `\n"}`, `{"value":"` + hush + `\r\nX: y"}`, `{"value":"` + hush + `\u0000"}`, `{"value":"` + hush + `\ud800"}`, "{\"value\":\"" + hush + "\xff\"}", "{\"value\":\"" + hush + "\n\"}",
		`{"value":"` + strings.Repeat(hush, 6000) + `"}`, `{"value":""}`, `{"value":null}`, `{"value":"[secret]"}`,
	} {
		h.ask(400, "PUT", path, annsKey, body)
	}
	h.ask(413, "PUT", path, annsKey, `{"value":"`+strings.Repeat(hush, 60_000)+`"}`)
	h.ask(415, "PUT", path, annsKey, good, "Content-Type", "text/plain")
	h.ask(401, "PUT", path, "e2b_wrong", good)
	h.ask(401, "PUT", "/v1/secrets/"+hush, "e2b_wrong", good)
	h.ask(403, "PUT", path, annsKey, good, "Origin", "https://evil.example", "Sec-Fetch-Site", "cross-site")
	h.ask(404, "PUT", path+"?tenant=bob", annsKey, good)
	h.ask(400, "PUT", path+"?tenant=No+One", operatorKey, good)
	h.ask(400, "PUT", path+"?other=1", annsKey, good)
	h.ask(400, "PUT", "/v1/secrets/"+hush, annsKey, good)
	h.ask(404, "DELETE", "/v1/secrets/"+hush, annsKey, good)
	h.ask(405, "POST", "/v1/secrets/"+hush, annsKey, good)
	h.ask(405, "POST", path, annsKey, good)
	h.ask(405, "PUT", "/v1/secrets", annsKey, good)
	h.ask(404, "PUT", path+"/more", annsKey, good)
	h.ask(200, "PUT", "/v1/secrets/B", annsKey, good)
	h.ask(429, "PUT", "/v1/secrets/C", annsKey, good)
	key := filepath.Join(h.dir, "secret.key")
	if err := os.Chmod(key, 0o666); err != nil {
		t.Fatal(err)
	}
	h.ask(503, "PUT", path, annsKey, good)
	if err := os.Remove(key); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(key+".new", 0o700); err != nil {
		t.Fatal(err)
	}
	h.ask(500, "PUT", path, annsKey, good)     // told to the log
	h.ask(500, "PUT", path, operatorKey, good) // and to operators
	if err := os.Remove(key + ".new"); err != nil {
		t.Fatal(err)
	}
	h.ask(200, "PUT", path, annsKey, good)
	h.ask(200, "GET", "/v1/secrets", annsKey, "")
	h.ask(200, "GET", "/v1/quotas", annsKey, "")
	h.ask(204, "DELETE", path, annsKey, "")
}
