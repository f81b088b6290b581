package cli

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"aether/cli/holder"
	"aether/engine"
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

// nastyHolder serves a template all of whose words are such.
func nastyHolder(t *testing.T) {
	t.Helper()
	state, err := os.MkdirTemp("", "s")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(state) })
	t.Setenv("AETHER_STATE_DIR", state)
	recipe := engine.Recipe{Name: nasty, Command: []string{nasty}, Spec: sandbox.Spec{Image: nasty}}
	for name, file := range map[string]any{"work": nil, "dead": holder.Manifest{Name: nasty, Recipe: recipe}} {
		dir := filepath.Join(state, "run", "templates", name)
		text, err := json.Marshal(file)
		if err == nil {
			err = os.MkdirAll(dir, 0o700)
		}
		if err == nil && file != nil {
			err = os.WriteFile(filepath.Join(dir, "manifest.json"), text, 0o600)
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, "log"), []byte(nasty), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	listener, err := net.Listen("unix", filepath.Join(state, "run", "templates", "work", "socket"))
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	info := holder.Info{Name: nasty, ID: nasty, Driver: nasty, Fidelity: nasty, Recipe: recipe,
		Tree: []engine.Node{{ID: nasty, Template: nasty}, {ID: nasty + "2", Parent: nasty, Born: now}}}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/template" && r.Method == http.MethodGet {
			_ = json.NewEncoder(w).Encode(info)
			return
		}
		w.WriteHeader(http.StatusConflict)
		_ = json.NewEncoder(w).Encode(holder.Failure{Class: nasty, Reason: nasty})
	})}
	go func() { _ = server.Serve(listener) }() // ends with Close
	t.Cleanup(func() { server.Close() })
}

// TestNothingHiddenIsPrinted has sandboxes, systems and templates choose their words as
// badly as they can, and prints them by every command that does.
func TestNothingHiddenIsPrinted(t *testing.T) {
	nastyHolder(t)
	drivers := []sandbox.Driver{nastyDriver{}}
	for _, args := range [][]string{
		{"run", "--", "true"}, {"run", "--", nasty}, {"run", "--driver", nasty, "--", "true"}, {"run", "--env", nasty, "--", "true"},
		{"run", "--template", "work", "--", "true"}, {"run", "--template", "work"}, {"run", "--template", nasty}, {"run", "--template", "wor"},
		{"run", "--template", "dead", "--", "true"}, {"run", "--json", "--template", "work", "--", "true"},
		{"template", "list"}, {"template", "list", "--json"}, {"template", "show", "work"}, {"template", "show", "work", "--tree"},
		{"template", "show", "work", "--json"}, {"template", "show", "dead"}, {"template", "show", "dead", "--json"}, {"template", "show", nasty},
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
