package tool

import (
	"context"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"aether/engine"
)

// plausible are arguments that a tool takes, about a sandbox.
func plausible(one *Tool, id string) args {
	a := args{}
	for name, p := range one.InputSchema().Properties {
		switch {
		case name == "sandbox":
			a[name] = id
		case len(p.Enum) > 0:
			a[name] = p.Enum[0]
		case name == "content":
			a[name] = "eHg="
		case name == "new":
			a[name] = "y"
		case p.Type == "string":
			a[name] = "x"
		case p.Type == "array":
			a[name] = []string{"a=b"}
		case p.Type == "boolean":
			a[name] = true
		default:
			a[name] = 1
		}
	}
	return a
}

// TestHostileArguments: what is no argument of a tool is refused with its name, before
// anything is done, and so is what is too long; the sandbox stays as it was.
func TestHostileArguments(t *testing.T) {
	h := newHouse(t)
	s := h.session(alice, Options{Own: true})
	id := do[Sandbox](t, s, "sandbox_create", args{}).ID
	shell(t, s, id, "echo mine > /tmp/mine")
	for _, one := range s.Tools() {
		with := func(name string, value any) args {
			a := plausible(one, id)
			if a[name] = value; value == nil {
				delete(a, name)
			}
			return a
		}
		if f := refuse(t, s, "invalid", one.Name, with("unheard_of", "x")); f.Field != "unheard_of" {
			t.Errorf("%s: the field is %q", one.Name, f.Field)
		}
		for _, text := range []string{`[]`, `"x"`, `{`, `{"sandbox":{}} x`, `nul`, `{"a":` + strings.Repeat(`[`, 100_000)} {
			if r := s.Do(t.Context(), one.Name, json.RawMessage(text)); r.Failure == nil || r.Failure.Class != "invalid" {
				t.Errorf("%s takes %.40s: %+v", one.Name, text, r)
			}
		}
		schema := one.InputSchema()
		for _, name := range schema.Required {
			if f := refuse(t, s, "invalid", one.Name, with(name, nil)); f.Field != name {
				t.Errorf("%s without %s: the field is %q", one.Name, name, f.Field)
			}
		}
		for name, p := range schema.Properties {
			wrong := []any{map[string]any{"a": 1}, []any{[]any{}}}
			if p.Type != "string" {
				wrong = append(wrong, "x")
			} else {
				wrong = append(wrong, 1, strings.Repeat("a", max(maxText, one.input().most[name])+1))
			}
			if p.Type == "integer" {
				wrong = append(wrong, 1.5, 1e300)
			}
			for _, value := range wrong {
				if f := refuse(t, s, "invalid", one.Name, with(name, value)); f.Field != name {
					t.Errorf("%s with a wrong %s: the field is %q (%s)", one.Name, name, f.Field, f.Reason)
				}
			}
		}
	}
	for name, list := range map[string][]args{
		"sandbox_create":  {{"memory_mb": -1}, {"disk_mb": 1 << 40}, {"timeout_s": -5}, {"env": []string{"=x"}}, {"env": []string{"x"}}, {"allow": []string{"a b"}}, {"image": "\x00"}, {"driver": "nothing"}},
		"sandbox_fork":    {{"count": 101}, {"count": -1}, {"timeout_s": 1 << 40}},
		"sandbox_timeout": {{"timeout_s": -1}},
		"command_run":     {{"command": " "}, {"command": "true", "timeout_s": 3601}, {"command": "true", "max_bytes": 1 << 30}, {"command": "true", "env": []string{"a"}}},
		"command_output":  {{"process": 0}, {"process": -1}, {"process": 1 << 40}, {"process": 1, "offset": -1}, {"process": 1, "wait_s": 301}},
		"command_input":   {{"process": 1}},
		"code_run":        {{"language": "python", "code": "1", "timeout_s": -1}},
		"file_read":       {{"path": ""}, {"path": "/tmp/a\x00b"}, {"path": "/tmp/mine", "offset": -1}, {"path": "/tmp/mine", "offset": 6}, {"path": "/tmp/mine", "offset": 2 << 30}, {"path": "/tmp"}, {"path": "/dev/zero"}},
		"file_write":      {{"path": "/tmp/x", "content": "*", "base64": true}, {"path": "/tmp", "content": "x"}, {"path": "", "content": "x"}},
		"file_upload":     {{"path": ""}, {"path": "a\x00b", "from": "x"}},
		"file_download":   {{"path": ""}, {"path": "a\x00b", "to": "x"}},
		"file_edit":       {{"path": "/tmp/mine", "old": "", "new": "x"}, {"path": "/tmp/mine", "old": "x", "new": "x"}},
		"file_list":       {{"path": "/tmp", "depth": -1}, {"path": "/tmp", "depth": 1 << 20}},
		"file_search":     {{"path": "/tmp"}, {"path": "/tmp", "glob": "["}},
		"network_set":     {},
		"port_expose":     {{"port": 0}, {"port": 65536}},
		"snapshot_create": {{"name": "NO GOOD"}},
		"template_create": {{"name": "NO GOOD"}, {"name": "a", "ahead": -1}},
	} {
		for _, a := range list {
			if one, err := named(name); err == nil && one.InputSchema().Properties["sandbox"] != nil {
				a["sandbox"] = id
			}
			refuse(t, s, "invalid", name, a)
		}
	}
	if r := s.Do(t.Context(), strings.Repeat("x", 1<<20), nil); r.Failure == nil || len(r.Failure.Reason) > 200 {
		t.Errorf("a tool that is not: %.300v", r)
	}
	if got := shell(t, s, id, "cat /tmp/mine"); got != "mine\n" {
		t.Errorf("it has %q", got)
	}
	if page, err := h.engine.List(t.Context(), alice, engine.Query{}); err != nil || len(page.Sandboxes) != 1 {
		t.Errorf("there are %d sandboxes, %v", len(page.Sandboxes), err)
	}
}

// TestOtherTenants: what is another tenant's does not exist, for any tool, and answers as
// what nobody has; what calls remember of it is not told either.
func TestOtherTenants(t *testing.T) {
	h := newHouse(t)
	s := h.session(alice, Options{Own: true})
	id := do[Sandbox](t, s, "sandbox_create", args{}).ID
	ran := do[Ran](t, s, "command_run", args{"sandbox": id, "command": "echo secret | tee /tmp/mine"})
	shot := do[Snapshot](t, s, "snapshot_create", args{"sandbox": id}).ID
	do[Template](t, s, "template_create", args{"sandbox": id, "name": "work"})
	// Bob has all that a session can have, and a sandbox of his own.
	shared, _, _ := shareDir(t)
	other := h.session(bob, Options{Own: true, Expose: true, Files: shared})
	his := do[Sandbox](t, other, "sandbox_create", args{}).ID
	before, err := h.engine.Get(t.Context(), alice, id)
	if err != nil {
		t.Fatal(err)
	}
	const nobody = "7k2m9x0r4c8v1b5n3q6w"
	for _, one := range other.Tools() {
		a := plausible(one, id)
		switch {
		case strings.HasPrefix(one.Name, "system_") || strings.HasSuffix(one.Name, "_list") && one.Name != "file_list" && one.Name != "command_list":
			continue // about no sandbox
		case one.Name == "sandbox_create":
			a = args{"template": "work"}
		case one.Name == "snapshot_restore" || one.Name == "snapshot_delete":
			a = args{"snapshot": shot}
		case strings.HasPrefix(one.Name, "template_") && one.Name != "template_create":
			a["template"], a["tags"] = "work", []string{"a"}
			if one.Name == "template_delete" {
				delete(a, "tags")
			}
		case one.Name == "command_output":
			a["process"] = ran.Process
		}
		theirs := refuse(t, other, "not_found", one.Name, a)
		if a["sandbox"] == nil {
			continue
		}
		b := maps.Clone(a)
		if delete(b, "from"); strings.HasSuffix(one.Name, "load") {
			delete(b, "to")
			refuse(t, other, "not_found", one.Name, b) // of which there is no URL either
		}
		b = maps.Clone(a)
		b["sandbox"] = nobody
		if none := refuse(t, other, "not_found", one.Name, b); strings.ReplaceAll(none.Reason, nobody, id) != theirs.Reason {
			t.Errorf("%s tells what is another's from what is nobody's: %q, %q", one.Name, theirs.Reason, none.Reason)
		}
		for _, wrong := range []string{"", "..", "../" + id, id + "/exec", strings.ToUpper(id), strings.Repeat("a", 4000), "a\x00b", "snapshot:" + shot} {
			b["sandbox"] = wrong
			refuse(t, other, "not_found", one.Name, b)
		}
	}
	// What is hers is not to be had by way of his either.
	refuse(t, other, "not_found", "sandbox_rollback", args{"sandbox": his, "snapshot": shot})
	refuse(t, other, "not_found", "command_output", args{"sandbox": his, "process": ran.Process})
	do[Done](t, other, "sandbox_destroy", args{"sandbox": his})
	for name, list := range map[string]string{"sandbox_list": "sandboxes", "snapshot_list": "snapshots", "template_list": "templates"} {
		a := args{}
		if name == "sandbox_list" {
			a["state"] = "running"
		}
		for _, a := range []args{a, {"sandbox": id}} {
			if name != "snapshot_list" && a["sandbox"] != nil {
				continue
			}
			r := other.Do(t.Context(), name, a.text(t))
			if text, err := json.Marshal(r); err != nil || string(text) != `{"`+list+`":[]}` {
				t.Errorf("%s gives %s, %v", name, text, err)
			}
		}
	}
	if after, err := h.engine.Get(t.Context(), alice, id); err != nil || !reflect.DeepEqual(before, after) {
		t.Errorf("her sandbox was %+v and is %+v, %v", before, after, err)
	}
	if got := shell(t, s, id, "cat /tmp/mine"); got != "secret\n" {
		t.Errorf("it has %q", got)
	}
	do[Done](t, s, "snapshot_delete", args{"snapshot": shot})
	do[Done](t, s, "template_delete", args{"template": "work"})
}

// TestPathsStayInside: no path or link of a call leads out of its sandbox.
func TestPathsStayInside(t *testing.T) {
	h := newHouse(t)
	s := h.session(alice, Options{Own: true})
	id := do[Sandbox](t, s, "sandbox_create", args{}).ID
	hidden := filepath.Join(scratch, "hidden")
	if err := os.WriteFile(hidden, []byte("of the host"), 0o666); err != nil {
		t.Fatal(err)
	}
	shell(t, s, id, "mkdir /tmp/d; ln -s "+hidden+" /tmp/link; ln -s / /tmp/d/root; ln -s "+scratch+" /tmp/dir; ln -s /proc/1/root/ /tmp/proc")
	ways := []string{hidden, "../../../../../.." + hidden, "/tmp/../../../../" + hidden, "/tmp/link", "/tmp/d/root" + hidden, "/tmp/dir/hidden", "/proc/self/root" + hidden, "/proc/1/root" + hidden, "/tmp/proc" + hidden}
	for _, way := range ways {
		for _, name := range []string{"file_read", "file_edit", "file_write", "file_move", "file_remove"} {
			a := args{"sandbox": id, "path": way}
			switch name {
			case "file_edit":
				a["old"], a["new"] = "host", "sandbox"
			case "file_write":
				a["content"] = "overwritten"
			case "file_move":
				a = args{"sandbox": id, "from": way, "to": "/tmp/moved"}
			}
			r := s.Do(t.Context(), name, a.text(t))
			if part, ok := r.Value.(FilePart); ok && strings.Contains(part.Text, "of the host") {
				t.Errorf("%s %s reads a file of the host", name, way)
			}
			if text, err := os.ReadFile(hidden); err != nil || string(text) != "of the host" {
				t.Fatalf("%s %s changes a file of the host: %q, %v", name, way, text, err)
			}
		}
	}
}

// TestLifetimes: a sandbox without keep ends with the session that owns it, or after an
// idle time that calls renew; one with keep, or with a timeout, does as that says.
func TestLifetimes(t *testing.T) {
	h := newHouse(t)
	idle := h.session(alice, Options{Idle: 10 * time.Minute})
	made := do[Sandbox](t, idle, "sandbox_create", args{})
	if left := time.Until(made.Expires); made.IdleS != 600 || left < 9*time.Minute || left > 10*time.Minute {
		t.Errorf("it is idle for %d s and ends in %v", made.IdleS, left)
	}
	left := func(id string) time.Duration {
		found, err := h.engine.Get(t.Context(), alice, id)
		if err != nil {
			t.Fatal(err)
		}
		return time.Until(found.Expires)
	}
	soon := func(id string) {
		if _, err := h.engine.SetTimeout(t.Context(), alice, id, time.Minute, ""); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"sandbox_get", "command_list", "sandbox_metrics"} {
		soon(made.ID)
		if r := idle.Do(t.Context(), name, args{"sandbox": made.ID}.text(t)); r.Failure != nil || left(made.ID) < 9*time.Minute {
			t.Errorf("after %s it ends in %v: %+v", name, left(made.ID), r.Failure)
		}
	}
	soon(made.ID)
	shellFor := args{"sandbox": made.ID, "command": "true", "timeout_s": 3600}
	if do[Ran](t, idle, "command_run", shellFor); left(made.ID) < time.Hour {
		t.Errorf("a command of an hour is run in what ends in %v", left(made.ID))
	}
	child := do[Sandboxes](t, idle, "sandbox_fork", args{"sandbox": made.ID}).Sandboxes[0]
	if child.IdleS != 600 || left(child.ID) > 10*time.Minute {
		t.Errorf("the child is %+v", child)
	}
	set := do[Sandbox](t, idle, "sandbox_timeout", args{"sandbox": made.ID, "timeout_s": 500})
	if do[Ran](t, idle, "command_run", args{"sandbox": made.ID, "command": "true"}); set.IdleS != 0 || left(made.ID) > 500*time.Second {
		t.Errorf("a timeout that was set is renewed: %v, %+v", left(made.ID), set)
	}
	timed := do[Sandbox](t, idle, "sandbox_create", args{"timeout_s": 400})
	kept := do[Sandbox](t, idle, "sandbox_create", args{"keep": true})
	if timed.IdleS != 0 || left(timed.ID) > 400*time.Second || !kept.Expires.IsZero() || !kept.Keep {
		t.Errorf("with a timeout: %+v; with keep: %+v", timed, kept)
	}
	owner, err := New(Options{Backend: OfEngine(h.engine, alice, nil), Own: true})
	if err != nil {
		t.Fatal(err)
	}
	one := do[Sandbox](t, owner, "sandbox_create", args{})
	two := do[Sandboxes](t, owner, "sandbox_fork", args{"sandbox": one.ID}).Sandboxes[0]
	three := do[Sandbox](t, owner, "sandbox_create", args{"keep": true})
	if err := owner.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	for id, want := range map[string]engine.State{one.ID: engine.Ended, two.ID: engine.Ended, three.ID: engine.Running, made.ID: engine.Running} {
		if found, err := h.engine.Get(t.Context(), alice, id); err != nil || found.State != want {
			t.Errorf("%s is %s, %v; not %s", id, found.State, err, want)
		}
	}
	refuse(t, h.session(alice, Options{Ephemeral: true}), "unsupported", "sandbox_create", args{"keep": true})
	for _, id := range []string{kept.ID, three.ID, child.ID, made.ID, timed.ID} {
		do[Done](t, idle, "sandbox_destroy", args{"sandbox": id})
	}
}

// TestFormatsCall: a message of a model's in any format has the same effect.
func TestFormatsCall(t *testing.T) {
	h := newHouse(t)
	s := h.session(alice, Options{Own: true})
	for i, f := range Formats() {
		answers, err := s.Call(t.Context(), f, []byte(messages[f][len(messages[f])-1]))
		if err != nil || len(answers) != 1 || strings.Contains(string(answers[0]), `retry`) {
			t.Fatalf("%s: %s, %v", f, answers, err)
		}
		page, err := h.engine.List(t.Context(), alice, engine.Query{})
		if err != nil || len(page.Sandboxes) != i+1 || page.Sandboxes[0].Spec.Limits.MemoryBytes != 64<<20 || !strings.Contains(string(answers[0]), page.Sandboxes[0].ID) {
			t.Errorf("%s made %+v, %v; it answers %s", f, page.Sandboxes, err, answers)
		}
		if want := map[Format]string{OpenAI: `"tool_call_id":"c1"`, OpenAIResponses: `"call_id":"c1"`, Anthropic: `"tool_use_id":"c1"`, Gemini: `"id":"c1"`}[f]; !strings.Contains(string(answers[0]), want) {
			t.Errorf("%s answers %s without %s", f, answers[0], want)
		}
	}
}
