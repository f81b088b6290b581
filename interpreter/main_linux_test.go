package interpreter_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"aether/driver/cell"
	"aether/guest"
	"aether/image"
	"aether/interpreter"
	"aether/sandbox"
)

// cells makes the cells of all tests.
var cells *cell.Driver

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "aether-interpreter-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	images := func() (*image.Store, error) { return image.Open(filepath.Join(dir, "images")) }
	cells = cell.New(cell.Options{Images: images, RunDir: filepath.Join(dir, "run")})
	code := m.Run()
	if err := cells.Close(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// newClient gives a client of a new cell.
func newClient(t testing.TB, spec sandbox.Spec) *guest.Client {
	t.Helper()
	instance, err := cells.Create(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	client := guest.NewClient(instance.Dial, guest.ClientOptions{})
	t.Cleanup(func() {
		client.Close()
		if err := instance.Destroy(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return client
}

// languages are those with a program of their own; TypeScript is Node's.
var languages = []interpreter.Language{interpreter.Python, interpreter.Node, interpreter.Bash}

var programs = map[interpreter.Language]string{interpreter.Python: "python3", interpreter.Node: "node", interpreter.Bash: "bash"}

// need skips where the host, whose image the cells have, lacks an interpreter.
func need(t testing.TB, language interpreter.Language) {
	t.Helper()
	for _, dir := range []string{"/usr/local/bin", "/usr/bin", "/bin"} {
		if _, err := os.Stat(filepath.Join(dir, programs[language])); err == nil {
			return
		}
	}
	t.Skipf("the host has no %s", programs[language])
}

// start starts an interpreter in a cell of its own.
func start(t testing.TB, language interpreter.Language) *interpreter.Context {
	t.Helper()
	return startIn(t, newClient(t, sandbox.Spec{}), language, interpreter.Options{})
}

// patience bounds what has to happen, on a host of any speed.
const patience = 2 * time.Minute

// startIn starts an interpreter that has, unless it is told otherwise, more time to heed an
// interrupt or to end than a busy host may need.
func startIn(t testing.TB, client *guest.Client, language interpreter.Language, opts interpreter.Options) *interpreter.Context {
	t.Helper()
	need(t, language)
	opts.Grace = cmp.Or(opts.Grace, 20*time.Second)
	c, err := interpreter.Start(t.Context(), client, language, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(context.Background()); err != nil && sandbox.ClassOf(err) != sandbox.NotFound {
			t.Errorf("close: %v", err)
		}
	})
	return c
}

// do runs code that must be answered.
func do(t testing.TB, c *interpreter.Context, code string) interpreter.Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	result, err := c.Run(ctx, code, interpreter.Handler{})
	if err != nil {
		t.Fatalf("%q: %v\n%+v", code, err, result)
	}
	return result
}

// text is the last expression's, and none if there was no value.
func text(r interpreter.Result) string {
	if r.Main() == nil {
		return "none"
	}
	return r.Main().Text
}

func wantText(t testing.TB, c *interpreter.Context, code, want string) {
	t.Helper()
	if r := do(t, c, code); text(r) != want || r.Error != nil {
		t.Errorf("%q gives %q, want %q (%+v)", code, text(r), want, r.Error)
	}
}

func wantError(t testing.TB, r interpreter.Result, name, message string) {
	t.Helper()
	if r.Error == nil || r.Error.Name != name || !strings.Contains(r.Error.Message, message) {
		t.Errorf("the error is %+v, want %s: %s", r.Error, name, message)
	}
}

// wantEnded checks that err says how the interpreter ended.
func wantEnded(t testing.TB, err error, class sandbox.Class) *interpreter.Ended {
	t.Helper()
	var ended *interpreter.Ended
	if !errors.As(err, &ended) || sandbox.ClassOf(err) != class {
		t.Fatalf("the error is %v of class %v, want an end of class %v", err, sandbox.ClassOf(err), class)
	}
	return ended
}
