package agent

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"aether/agent/script"
	"aether/sandbox"
	"aether/tool"
)

// results are the answers to the calls of a tool in a run of a script, which ends well.
func results(t *testing.T, opts Options, turns ...script.Turn) []string {
	t.Helper()
	model, _ := scripted(t, "anthropic", script.Script{"main": append(turns, script.Turn{Text: "Done."})})
	opts.Task = "Do it."
	var list []string
	for _, e := range runOnce(t, opts, model) {
		if e.Kind == Called {
			list = append(list, string(e.Result))
		}
	}
	return list
}

// TestUndo: each call can be undone, with what it did to files and processes, though a
// sandbox has fewer marks than there were calls.
func TestUndo(t *testing.T) {
	session, _ := newSession(t)
	undo := func(n int) script.Call { return script.Call{Name: "undo", Arguments: args{"calls": n}} }
	var turns []script.Turn
	for i := range 10 {
		turns = append(turns, say1(shell(fmt.Sprintf("echo %d >>/tmp/calls", i))))
	}
	turns = append(turns, say1(undo(3)), say1(shell("paste -sd, /tmp/calls"), undo(2), shell("paste -sd, /tmp/calls")), say1(undo(8)), say1(undo(0)))
	got := results(t, Options{Session: session, Checkpoint: true}, turns...)
	for i, want := range map[int]string{10: "3 calls are undone", 11: `"0,1,2,3,4,5,6\n"`, 12: "2 calls are undone", 13: `"0,1,2,3,4,5\n"`, 14: "calls can be undone", 15: "calls can be undone"} {
		if !strings.Contains(got[i], want) {
			t.Errorf("answer %d is %s, without %s", i, got[i], want)
		}
	}
}

// TestPolicy: what is not allowed is not done, and the model is told.
func TestPolicy(t *testing.T) {
	session, _ := newSession(t)
	other := session.Do(t.Context(), "sandbox_create", []byte("{}")).Value.(tool.Sandbox).ID
	write := func(sandbox any, path string) script.Call {
		return script.Call{Name: "file_write", Arguments: args{"sandbox": sandbox, "path": path, "content": "x"}}
	}
	remove := script.Call{Name: "file_remove", Arguments: args{"sandbox": "here", "path": "/tmp/a"}}
	look := script.Call{Name: "file_list", Arguments: args{"sandbox": "here", "path": "/tmp"}}
	turns := []script.Turn{say1(write("here", "/tmp/a"), write(other, "/tmp/b"), write(7, "/tmp/b"), shell("touch /tmp/b"),
		script.Call{Name: "sandbox_create"}, script.Call{Name: "undo", Arguments: args{"calls": 1}}, remove, look)}
	for name, c := range map[string]struct {
		person  func(context.Context, string, tool.Request) (bool, error)
		removed bool
	}{
		"nobody": {},
		"no":     {person: func(context.Context, string, tool.Request) (bool, error) { return false, nil }},
		"yes": {person: func(_ context.Context, line string, call tool.Request) (bool, error) {
			return line == mainLine && call.Name == "file_remove", nil
		}, removed: true},
	} {
		got := results(t, Options{Session: session, Policy: Policy{Tools: []string{"file_*"}, Ask: []string{"file_remove"}, Person: c.person}}, turns...)
		for i, answer := range got {
			denied := strings.Contains(answer, `"class":"denied"`)
			if want := i >= 1 && i <= 4 || i == 6 && !c.removed; denied != want {
				t.Errorf("%s: answer %d is %s", name, i, answer)
			}
		}
		if left := strings.Contains(got[7], "/tmp/a"); left == c.removed || strings.Contains(got[7], "/tmp/b") {
			t.Errorf("%s: then there is %s", name, got[7])
		}
	}
	list := session.Do(t.Context(), "file_list", encode(args{"sandbox": other, "path": "/tmp"}))
	if files, ok := list.Value.(tool.Files); !ok || len(files.Files) > 0 {
		t.Errorf("another sandbox has %+v, %+v", list.Value, list.Failure)
	}
	for _, o := range []Options{{Policy: Policy{Tools: []string{"sandbox_create"}}}, {Policy: Policy{Tools: []string{"flie_*"}}}, {Policy: Policy{Ask: []string{"sandbox_fork"}}},
		{Sandbox: Sandbox{From: other, Allow: []string{"packages"}}}, {Branch: Branch{Count: 2}}, {Branch: Branch{Count: 65, Score: "true"}}, {Branch: Branch{Count: 2, At: []int{0}, Score: "true"}},
		{Budget: Budget{Time: -1}}} {
		model, server := scripted(t, "anthropic", script.Script{"main": {{Text: "Done."}}})
		o.Session, o.Model, o.Task = session, model, "x"
		if _, err := Run(t.Context(), o); sandbox.ClassOf(err) != sandbox.Invalid || server.Asked() > 0 {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

// waiting is a model that does not answer.
type waiting struct{ Model }

// Next implements Model.
func (waiting) Next(ctx context.Context, _ Conversation) (Reply, error) {
	<-ctx.Done()
	return Reply{}, ctx.Err()
}

// TestBudgets: steps, tokens and time are bounded, in branches too.
func TestBudgets(t *testing.T) {
	session, e := newSession(t)
	busy := script.Script{"main": {say1(shell("true")), say1(shell("true")), say1(shell("true")), say1(shell("true"))}}
	for _, n := range []string{"1", "2"} {
		busy[n] = busy["main"]
	}
	model, server := scripted(t, "openai", busy)
	for name, c := range map[string]struct {
		opts  Options
		why   string
		asked int
	}{
		"steps":    {Options{Model: model, Budget: Budget{Steps: 2}}, NoSteps, 2},
		"tokens":   {Options{Model: model, Budget: Budget{Tokens: 1}}, NoTokens, 1},
		"branches": {Options{Model: model, Budget: Budget{Steps: 3}, Branch: Branch{Count: 2, Score: "true"}}, NoSteps, 6},
		"time":     {Options{Model: waiting{model}, Budget: Budget{Time: time.Nanosecond}}, NoTime, 0},
	} {
		t.Run(name, func(t *testing.T) {
			before := server.Asked()
			c.opts.Session, c.opts.Task = session, "Do it."
			out, err := Run(t.Context(), c.opts)
			if out.Why != c.why || server.Asked()-before != c.asked || (err != nil) != (c.why == NoTime) || out.OK() {
				t.Errorf("%+v, asked %d, %v", out, server.Asked()-before, err)
			}
			noneLeft(t, e)
		})
	}
}

// TestBranchesGoOn: forks that are scored before their ends go on, and are forked again.
func TestBranchesGoOn(t *testing.T) {
	session, e := newSession(t)
	add := func(n string) script.Turn { return say1(shell("echo " + n + " >>/tmp/sum")) }
	model, _ := scripted(t, "gemini", script.Script{
		"1": {add("1")}, "2": {add("5"), add("1")}, // 2 is kept, and goes on for one step
		"2.1": {add("2"), {Text: "Two."}}, "2.2": {{Refuse: []int{400}}}, // 2.2 fails
	})
	opts := Options{Session: session, Task: "Add.", Branch: Branch{Count: 2, At: []int{1, 3}, Steps: 1, Score: "awk '{n += $1} END {print n}' /tmp/sum"}}
	tree, err := NewTree(runOnce(t, opts, model))
	if err != nil {
		t.Fatal(err)
	}
	if out := tree.Outcome; out.Line != "2.1" || out.Score.Number != 8 || out.Answer != "Two." || out.Steps != 4 {
		t.Errorf("outcome %+v, %+v", out, out.Score)
	}
	second := tree.Main.Forks[1]
	if len(second.Forks) != 2 || second.Fate != Kept || second.Forks[1].Fate != Dropped || second.Forks[1].Why == "" {
		t.Errorf("%+v", second)
	}
	noneLeft(t, e)
}

// TestSecretsStayOut: a key, and what was said to be secret, is in no transcript, however it
// is quoted.
func TestSecretsStayOut(t *testing.T) {
	session, _ := newSession(t)
	for _, provider := range Providers() {
		secret := `pass"wo<rd\1`
		model, _ := scripted(t, provider, script.Script{"main": {say1(shell("cat <<'E'\n" + secret + "\n" + `{"it": "pass\"wo<rd\\1"}` + "\nE\n")), {Text: "It is " + secret + " and " + key}}})
		var text bytes.Buffer
		out, err := Run(t.Context(), Options{Session: session, Model: model, Task: "Show " + secret, Transcript: &text, Secrets: []string{key, secret, ""}})
		if err != nil || !strings.Contains(out.Answer, secret) {
			t.Fatalf("%+v, %v", out, err)
		}
		for _, part := range []string{"wo<rd", `wo\u003crd`, `u003crd`, "of-ours"} {
			if strings.Contains(text.String(), part) {
				t.Errorf("%s: the transcript has %s:\n%s", provider, part, text.String())
			}
		}
		if !strings.Contains(text.String(), hiddenValue) {
			t.Error("nothing was hidden")
		}
		if _, err := Read(&text); err != nil {
			t.Error(err)
		}
	}
}
