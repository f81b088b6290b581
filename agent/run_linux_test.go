package agent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"aether/agent/script"
	"aether/driver/cell"
	"aether/engine"
	"aether/image"
	"aether/sandbox"
	"aether/tool"
)

// newSession is one over a real engine of cells.
func newSession(t testing.TB) (*tool.Session, *engine.Engine) {
	t.Helper()
	if runtime.GOARCH != "amd64" {
		t.Skip("cells are forked on amd64 only")
	}
	dir, err := os.MkdirTemp("", "aether-agent-")
	if err == nil {
		err = os.Chmod(dir, 0o711) // all may pass through
	}
	if err != nil {
		t.Fatal(err)
	}
	images := sync.OnceValues(func() (*image.Store, error) { return image.Open(filepath.Join(dir, "images")) })
	e, err := engine.Open(engine.Options{State: filepath.Join(dir, "state"), Drivers: []sandbox.Maker{{Name: cell.Name, New: func() sandbox.Driver {
		return cell.New(cell.Options{Images: images, RunDir: filepath.Join(dir, "run")})
	}}}})
	if err != nil {
		t.Fatal(err)
	}
	s, err := tool.New(tool.Options{Backend: tool.OfEngine(e, who, nil), Own: true, Reveal: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(s.Close(context.Background()), e.Close(context.Background()), os.RemoveAll(dir)); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s, e
}

var who = engine.Caller{Tenant: "alice", Operator: true, Name: "alice"}

func shell(command string) script.Call {
	return script.Call{Name: "command_run", Arguments: args{"sandbox": "here", "command": command}}
}

func say1(calls ...script.Call) script.Turn { return script.Turn{Calls: calls} }

// suite is a program with a fault, a suite that fails for it, and a process whose memory
// says how often it was asked.
const suite = `mkdir -p /tmp/w && cd /tmp/w && echo 'double() { echo $(($1 + 2)); }' >double.sh &&
cat >suite.sh <<'END'
. /tmp/w/double.sh
passed=0
for n in 1 2 3 5; do [ "$(double $n)" = $((n + n)) ] && passed=$((passed + 1)); done
echo $passed
[ $passed = 4 ]
END
! sh suite.sh`

// patches are what eight forks try. The sixth is right.
var patches = []string{"$1 + 1", "$1 + 3", "$1 * $1", "$1 - 2", "$1 / 2", "$1 * 2", "$1 * 3", "2"}

// branching is the script of a run that looks, starts a process that lives, and is forked
// into as many as there are patches.
func branching() script.Script {
	s := script.Script{"main": {
		say1(shell("cd /tmp/w && sh suite.sh; cat double.sh"), script.Call{Name: "command_start", Arguments: args{"sandbox": "here",
			"command": "n=0; mkfifo /tmp/ask /tmp/told; while read x </tmp/ask; do n=$((n+1)); echo $n >/tmp/told; done"}}),
		say1(shell("until [ -p /tmp/told ]; do :; done; echo >/tmp/ask; cat /tmp/told")),
	}}
	for i, p := range patches {
		s[fmt.Sprint(i+1)] = []script.Turn{
			say1(script.Call{Name: "file_edit", Arguments: args{"sandbox": "here", "path": "/tmp/w/double.sh", "old": "$1 + 2", "new": p}}),
			// The living process goes on counting from what it had when it was forked.
			say1(shell("echo >/tmp/ask; cat /tmp/told >/tmp/w/count; cat /tmp/w/count")),
			{Text: "Tried " + p + "."},
		}
	}
	return s
}

// TestBranches runs the whole loop by each provider's wire: a suite fails, eight forks with a
// living process each try a patch, and the one that passes is kept. Then the transcript is
// replayed without a model.
func TestBranches(t *testing.T) {
	session, e := newSession(t)
	opts := Options{Session: session, Task: "Make the suite pass.", Sandbox: Sandbox{Setup: suite}, Secrets: []string{key},
		Branch: Branch{Count: len(patches), At: []int{3}, Score: "sh /tmp/w/suite.sh"}}
	var first []Entry
	for _, provider := range Providers() {
		model, _ := scripted(t, provider, branching())
		entries := runOnce(t, opts, model)
		checkBranches(t, entries)
		first = entries
	}
	again, err := Replay(first)
	if err != nil {
		t.Fatal(err)
	}
	checkBranches(t, runOnce(t, opts, again))
	noneLeft(t, e)
}

func noneLeft(t *testing.T, e *engine.Engine) {
	t.Helper()
	left, err := e.List(t.Context(), who, engine.Query{States: []engine.State{engine.Running}})
	if err != nil || len(left.Sandboxes) != 0 {
		t.Errorf("%d sandboxes are left: %v", len(left.Sandboxes), err)
	}
}

// runOnce runs and reads the transcript.
func runOnce(t *testing.T, opts Options, m Model) []Entry {
	t.Helper()
	var text bytes.Buffer
	opts.Model, opts.Transcript = m, &text
	out, err := Run(t.Context(), opts)
	if err != nil || !out.OK() {
		t.Fatalf("%s: %+v, %v\n%s", m.Format(), out, err, text.String())
	}
	entries, err := Read(&text)
	if err != nil {
		t.Fatal(err)
	}
	return entries
}

func checkBranches(t *testing.T, entries []Entry) {
	t.Helper()
	tree, err := NewTree(entries)
	if err != nil {
		t.Fatal(err)
	}
	if out := tree.Outcome; out == nil || out.Line != "6" || out.Score == nil || !out.Score.Passed || out.Score.Number != 4 || out.Answer != "Tried $1 * 2." {
		t.Errorf("outcome %+v", out)
	}
	if n := len(tree.Main.Forks); n != len(patches) || tree.Main.Steps != 2 || len(tree.Main.Calls) != 3 {
		t.Fatalf("%d forks, main %+v", n, tree.Main)
	}
	for i, f := range tree.Main.Forks {
		want := Dropped
		if i == 5 {
			want = Kept
		}
		if f.Fate != want || f.Score == nil || f.Score.Passed != (i == 5) || f.Steps != 3 || len(f.Calls) != 2 || f.Calls[0].Failed {
			t.Errorf("fork %s: %+v", f.Name, f)
		}
	}
	for _, e := range entries {
		if e.Kind == Called && e.Line != mainLine && e.Call.Name == "command_run" && !strings.Contains(string(e.Result), `"text":"2\n"`) {
			t.Errorf("line %s: the process did not go on: %s", e.Line, e.Result)
		}
	}
}
