package engine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"aether/engine"
	"aether/interpreter"
	"aether/sandbox"
)

func TestForkOfACommand(t *testing.T) {
	need(t, "python3")
	e := newEngine(t)
	template := prepare(t, e, countingRecipe())
	for i, child := range fork(t, template, 3) {
		if got := ask(t, child, fmt.Sprint(i)); got != fmt.Sprint(40+i) {
			t.Errorf("child %d answers %s", i, got)
		}
	}
	late := fork(t, template, 1)[0]
	if got := ask(t, late, "2"); got != "42" {
		t.Errorf("a later child answers %s: the template has changed", got)
	}
}

func TestForkOfAnInterpreter(t *testing.T) {
	need(t, "python3")
	e := newEngine(t)
	template := prepare(t, e, pythonRecipe("import random\nx = 41\nrandom.seed(7)"))
	children := fork(t, template, 2)
	for _, child := range children {
		if got := calc(t, child, "x += 1\nx"); got != "42" {
			t.Errorf("x is %s", got)
		}
	}
	if a, b := calc(t, children[0], "random.random()"), calc(t, children[1], "random.random()"); a == b {
		t.Errorf("two children draw the same %s", a)
	}
}

func TestEveryLanguage(t *testing.T) {
	for language, c := range map[interpreter.Language]struct{ program, prime, code, want string }{
		interpreter.Node: {"node", "let x = 41", "x + 1", "42"},
		interpreter.Bash: {"bash", "x=41", "echo $((x+1))", "42\n"},
	} {
		t.Run(string(language), func(t *testing.T) {
			need(t, c.program)
			e := newEngine(t)
			template := prepare(t, e, engine.Recipe{Name: "any", Code: &engine.Code{Language: language, Source: c.prime}})
			context, err := fork(t, template, 1)[0].Interpreter(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			result, err := context.Run(t.Context(), c.code, interpreter.Handler{})
			got := result.Logs.Stdout
			if v := result.Main(); v != nil {
				got = v.Text
			}
			if err != nil || got != c.want {
				t.Errorf("got %q, %+v, %v", got, result, err)
			}
		})
	}
}

func TestPreparation(t *testing.T) {
	need(t, "sh", "sleep")
	e := newEngine(t)
	var steps []string
	recipe := engine.Recipe{Name: "steps", Run: [][]string{{"sh", "-c", "echo a > /tmp/a"}, {"sh", "-c", "cat /tmp/a > /tmp/b"}},
		Command: []string{"sh", "-c", "cat /tmp/b > /tmp/c; exec sleep 1000"}, Ready: engine.Ready{File: "/tmp/c"}}
	template, err := e.Prepare(t.Context(), cells, recipe, func(step string) { steps = append(steps, step) })
	if err != nil {
		t.Fatal(err)
	}
	child := fork(t, template, 1)[0]
	if _, err := child.Client().Stat(t.Context(), "/tmp/c"); err != nil {
		t.Error(err)
	}
	if len(steps) != 6 || steps[0] != engine.StepCreate || steps[4] != engine.StepReady || steps[5] != engine.StepTry {
		t.Errorf("the steps are %q", steps)
	}
	if got := e.Templates(); len(got) != 1 || got[0] != template {
		t.Errorf("the templates are %v", got)
	}
}

func TestFailedPreparations(t *testing.T) {
	need(t, "sh", "sleep", "python3")
	stay := []string{"sleep", "1000"}
	for name, c := range map[string]struct {
		recipe engine.Recipe
		class  sandbox.Class
		says   string
	}{
		"a command fails":         {engine.Recipe{Run: [][]string{{"sh", "-c", "echo oh no >&2; exit 3"}}, Command: stay}, sandbox.Conflict, "status 3: oh no"},
		"no such command":         {engine.Recipe{Command: []string{"no-such-command"}}, sandbox.NotFound, "no-such-command"},
		"it does not stay":        {engine.Recipe{Command: []string{"sh", "-c", "echo bye; exit 1"}, Ready: engine.Ready{Line: "hello"}}, sandbox.Conflict, "before it was ready: bye"},
		"the line does not come":  {engine.Recipe{Command: stay, Ready: engine.Ready{Line: "x", Timeout: 300 * time.Millisecond}}, sandbox.Timeout, `contains "x"`},
		"the file does not come":  {engine.Recipe{Command: stay, Ready: engine.Ready{File: "/x", Timeout: 300 * time.Millisecond}}, sandbox.Timeout, "/x is not there"},
		"the command does not":    {engine.Recipe{Command: stay, Ready: engine.Ready{Command: []string{"false"}, Timeout: time.Second}}, sandbox.Timeout, "false does not succeed"},
		"the code fails":          {pythonRecipe("1/0"), sandbox.Conflict, "ZeroDivisionError"},
		"the code does not end":   {engine.Recipe{Code: &engine.Code{Language: interpreter.Python, Source: "while True: pass"}, Ready: engine.Ready{Timeout: time.Second}}, sandbox.Timeout, ""},
		"the last command failed": {engine.Recipe{Code: &engine.Code{Language: interpreter.Bash, Source: "false"}}, sandbox.Conflict, "gave 1"},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEngine(t)
			c.recipe.Name = "bad"
			longer(t, c.recipe.Ready.Timeout, func(t *testing.T, within time.Duration) bool {
				c.recipe.Ready.Timeout = within
				_, err := e.Prepare(t.Context(), cells, c.recipe, nil)
				if sandbox.ClassOf(err) != c.class {
					t.Errorf("%v: %v", sandbox.ClassOf(err), err)
				}
				t.Logf("%v", err)
				return err != nil && strings.Contains(err.Error(), c.says) // or else it was not begun in time
			})
			if _, err := e.Template("bad"); sandbox.ClassOf(err) != sandbox.NotFound {
				t.Errorf("it is found: %v", err)
			}
		})
	}
}

func TestNamesAreTaken(t *testing.T) {
	need(t, "sleep")
	e := newEngine(t)
	recipe := engine.Recipe{Name: "one", Command: []string{"sleep", "1000"}}
	prepare(t, e, recipe)
	if _, err := e.Prepare(t.Context(), cells, recipe, nil); sandbox.ClassOf(err) != sandbox.Conflict {
		t.Errorf("a second of the name: %v", err)
	}
	if err := e.Remove(t.Context(), "one"); err != nil {
		t.Error(err)
	}
	if err := e.Remove(t.Context(), "one"); sandbox.ClassOf(err) != sandbox.NotFound {
		t.Errorf("removed twice: %v", err)
	}
	prepare(t, e, recipe)
}

func TestTreeToAnyDepth(t *testing.T) {
	need(t, "python3")
	e := newEngine(t)
	template := prepare(t, e, countingRecipe())
	child := fork(t, template, 1)[0]
	if got := ask(t, child, "1"); got != "41" {
		t.Errorf("the child answers %s", got)
	}
	grandchild := fork(t, child, 2)[1]
	if got := ask(t, grandchild, "1"); got != "42" {
		t.Errorf("the grandchild answers %s", got)
	}
	last := fork(t, grandchild, 1)[0]
	if err := child.Destroy(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, n := range e.Tree() {
		if n.ID == child.ID() && n.Ended == nil {
			t.Error("a child that was destroyed has not ended in the tree")
		}
	}
	if got := ask(t, last, "1"); got != "43" {
		t.Errorf("the last answers %s", got)
	}
	var chain []string
	parents := map[string]string{}
	for _, n := range e.Tree() {
		parents[n.ID] = n.Parent
		if n.Template != "counting" || n.Took <= 0 || (n.Ended != nil) != (n.ID == child.ID()) {
			t.Errorf("%+v", n)
		}
	}
	for id := last.ID(); id != ""; id = parents[id] {
		chain = append(chain, id)
	}
	if want := []string{last.ID(), grandchild.ID(), child.ID(), template.ID()}; !slices.Equal(chain, want) || len(parents) != 5 {
		t.Errorf("the line of descent is %v of %v, want %v", chain, parents, want)
	}
}

func TestEndedTemplate(t *testing.T) {
	need(t, "sleep")
	e := newEngine(t)
	template := prepare(t, e, engine.Recipe{Name: "short", Command: []string{"sleep", "1000"}})
	child := fork(t, template, 1)[0]
	if err := e.Remove(t.Context(), "short"); err != nil {
		t.Fatal(err)
	}
	<-template.Done()
	if _, err := template.Fork(t.Context(), sandbox.Spec{}); sandbox.ClassOf(err) != sandbox.NotFound {
		t.Errorf("a fork of nothing: %v", err)
	}
	if _, err := child.Stats(t.Context()); err != nil {
		t.Errorf("the child did not outlive it: %v", err)
	}
}

func TestForkIsCancelled(t *testing.T) {
	need(t, "sleep")
	e := newEngine(t)
	template := prepare(t, e, engine.Recipe{Name: "one", Command: []string{"sleep", "1000"}})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := template.Fork(ctx, sandbox.Spec{}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	fork(t, template, 1)
}

func TestCloseEndsAPreparation(t *testing.T) {
	need(t, "sleep")
	e := newEngine(t)
	started := make(chan struct{})
	failed := make(chan error)
	go func() {
		_, err := e.Prepare(context.Background(), cells, engine.Recipe{Name: "slow", Command: []string{"sleep", "1000"}, Ready: engine.Ready{Line: "x"}},
			func(step string) {
				if step == engine.StepReady {
					close(started)
				}
			})
		failed <- err
	}()
	<-started
	if err := e.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if err := <-failed; err == nil {
		t.Error("it was prepared in a closed engine")
	}
	if _, err := e.Prepare(t.Context(), cells, engine.Recipe{Name: "late", Command: []string{"sleep", "1"}}, nil); sandbox.ClassOf(err) != sandbox.Conflict {
		t.Errorf("a closed engine prepares: %v", err)
	}
}
