package cli

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"aether/engine"
	"aether/rest"
	"aether/sandbox"
)

// nasty is text as a hostile sandbox chooses it: escape sequences, ends of lines, both
// sets of control characters, letters that turn the order around, and no text at all.
const nasty = "n\x1b[2J\x1b]0;title\x07\r\nroot# \b\x7f\u009b31m\u202egpj.exe\u2066\u200f\u2028\xff\xc2\x00end"

// checkVisible wants nothing in text that a terminal obeys, but for ends of lines and
// tabs, and no line that nasty has begun.
func checkVisible(t *testing.T, what, text string) {
	t.Helper()
	if !utf8.ValidString(text) {
		t.Errorf("%s is no text: %q", what, text)
	}
	for _, r := range text {
		if hidden(r) && r != '\n' && r != '\t' {
			t.Errorf("%s has %q: %q", what, r, text)
			return
		}
	}
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "root#") {
			t.Errorf("%s has a line of its own: %q", what, text)
		}
	}
}

// nastyDriver is a system that gives its reasons in such words.
type nastyDriver struct{ sandbox.Driver }

func (nastyDriver) Info() sandbox.Info { return sandbox.Info{Name: "cell"} }
func (nastyDriver) Probe(context.Context) sandbox.Report {
	return sandbox.Report{Usable: true, Version: nasty, Reason: nasty, Remedy: nasty, Gaps: []sandbox.Gap{{Missing: nasty, Cost: nasty, Remedy: nasty}}}
}
func (nastyDriver) Create(context.Context, sandbox.Spec) (sandbox.Instance, error) {
	return nil, &sandbox.Error{Class: sandbox.Unavailable, Op: nasty, Field: nasty, Reason: nasty, Remedy: nasty}
}

// nastyDaemon serves templates all of whose words are such.
func nastyDaemon(t *testing.T) {
	t.Helper()
	state, err := os.MkdirTemp("", "s")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(state) })
	t.Setenv("AETHER_STATE_DIR", state)
	dir := filepath.Join(state, "run", "daemon")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("unix", filepath.Join(dir, "socket"))
	if err != nil {
		t.Fatal(err)
	}
	recipe := engine.Recipe{Name: nasty, Command: []string{nasty}, Spec: sandbox.Spec{Image: nasty}}
	info := engine.TemplateInfo{ID: nasty, Name: nasty, Tags: []string{nasty}, State: nasty, Reason: nasty, Step: nasty, Driver: nasty, Fidelity: nasty, Recipe: recipe,
		Ahead: 1, Pool: &engine.PoolStats{Reason: nasty}, Commands: []engine.PreparedCommand{{Command: nasty, Unkept: nasty}, {Command: nasty, Cached: true}}, Resident: &engine.Resident{PID: 7}}
	ready := info
	ready.State = engine.TemplateReady
	tree := rest.TemplateTree{Nodes: []engine.Node{{ID: nasty, Template: nasty}, {ID: nasty + "2", Parent: nasty, Born: time.Now()}}}
	answers := map[string]any{"/v1/templates": engine.TemplatePage{Templates: []engine.TemplateInfo{info, ready}},
		"/v1/templates/work": ready, "/v1/templates/failed": info, "/v1/templates/-/tree": tree,
		"/v1/sandboxes/x/console": rest.Output{Bytes: []byte(nasty), Truncated: true}}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch value, ok := answers[r.URL.Path]; {
		case r.URL.Path == "/ready":
			w.WriteHeader(http.StatusNoContent)
		case ok && r.Method == http.MethodGet:
			_ = json.NewEncoder(w).Encode(value)
		case r.URL.Path == "/v1/templates":
			_ = json.NewEncoder(w).Encode(rest.TemplateProgress{Step: nasty})
			_ = json.NewEncoder(w).Encode(rest.TemplateProgress{Template: &info})
		default:
			w.WriteHeader(http.StatusConflict)
			_ = json.NewEncoder(w).Encode(rest.Failure{Class: nasty, Field: nasty, Reason: nasty, Remedy: nasty})
		}
	})}
	go func() { _ = server.Serve(listener) }() // ends with Close
	t.Cleanup(func() { server.Close() })
}

// TestNothingHiddenIsPrinted has sandboxes, systems and templates choose their words as
// badly as they can, and prints them by every command that does.
func TestNothingHiddenIsPrinted(t *testing.T) {
	nastyDaemon(t)
	drivers := []sandbox.Driver{nastyDriver{}}
	for _, args := range [][]string{
		{"run", "--", "true"}, {"run", "--", nasty}, {"run", "--driver", nasty, "--", "true"}, {"run", "--env", nasty, "--", "true"},
		{"run", "--template", "work", "--", "true"}, {"run", "--template", "work"}, {"run", "--template", nasty}, {"run", "--template", "wor"},
		{"run", "--template", "failed", "--", "true"}, {"run", "--json", "--template", "work", "--", "true"},
		{"template", "list"}, {"template", "list", "--json"}, {"template", "show", "work"}, {"template", "show", "work", "--tree"},
		{"template", "show", "work", "--json"}, {"template", "show", "failed"}, {"template", "show", "failed", "--json"}, {"template", "show", "failed", "--tree"}, {"pool", "list"}, {"pool", "set", "work", "3"}, {"template", "prepare", "work", "--", "x"}, {"template", "promote", "work", "x"}, {"template", "tag", "work", "x"}, {"template", "show", nasty},
		{"template", "rm", "work"}, {"template", "rm", nasty}, {"template", "prepare", nasty, "--", nasty},
		{"systems"}, {"systems", "--json"}, {"profile", nasty}, {"compare", nasty, "cell"}, {nasty}, {"rank", "--need", nasty},
	} {
		got := run(t, drivers, args...)
		what := strings.ReplaceAll(strings.Join(args, " "), nasty, "NASTY")
		checkVisible(t, what, got.stdout)
		checkVisible(t, what+" (errors)", got.stderr)
		if got.stdout+got.stderr == "" {
			t.Errorf("%s prints nothing", what)
		}
	}
}

// TestConsoleIsPrinted: the lines of a console are the guest's, and nothing else of it is
// obeyed.
func TestConsoleIsPrinted(t *testing.T) {
	nastyDaemon(t)
	const want = `n\x1b[2J\x1b]0;title\a` + "\n" + `root# \b\x7f\u009b31m\u202egpj.exe\u2066\u200f\u2028\xff\xc2\x00end` + "\n"
	if got := run(t, nil, "logs", "--console", "x"); got != (outcome{want, "", 0}) {
		t.Errorf("%+v", got)
	}
	got := decode[stream](t, succeed(t, "logs", "--console", "--json", "x"))
	if text, err := base64.StdEncoding.DecodeString(got.Base64); err != nil || string(text) != nasty || !got.Truncated {
		t.Errorf("%q, %v, %+v", text, err, got)
	}
}

// TestJSONKeepsWhatIsHidden: what is written in another way reads the same.
func TestJSONKeepsWhatIsHidden(t *testing.T) {
	want := strings.ToValidUTF8(nasty, "\ufffd")
	text, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	shown := visibleJSON(text)
	var got string
	if err := json.Unmarshal(shown, &got); err != nil || got != want {
		t.Errorf("%q, %v", got, err)
	}
	checkVisible(t, "JSON", string(shown))
}

// TestVisiblePage: colours of ours stay, others' do not.
func TestVisiblePage(t *testing.T) {
	s := screen{colour: true}
	if got, want := visiblePage(s.paint(red, "a\x1b[2Jb")+"\n\tü €"), "\x1b[31ma\\x1b[2Jb\x1b[0m\n\tü €"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
