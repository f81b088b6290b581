package engine_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"aether/driver/cell"
	"aether/engine"
	"aether/image"
	"aether/interpreter"
	"aether/sandbox"
)

// scratch is a directory that all may pass through.
var scratch string

// cells makes the cells of all tests.
var cells *cell.Driver

func TestMain(m *testing.M) {
	if dir := os.Getenv(victimDir); dir != "" {
		os.Exit(victim(dir))
	}
	if dir := os.Getenv(templateVictim); dir != "" {
		os.Exit(prepareAndWait(dir))
	}
	if dir := os.Getenv(layerVictim); dir != "" {
		os.Exit(prepareAndDie(dir))
	}
	engine.SweepAfter(10 * time.Millisecond) // so that it happens beside everything else
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "aether-engine-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o711); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	scratch = dir
	images := func() (*image.Store, error) { return image.Open(filepath.Join(dir, "images")) }
	cells = cell.New(cell.Options{Images: images, RunDir: filepath.Join(dir, "run")})
	if err := warmUp(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := m.Run()
	if systemsDir != "" {
		defer os.RemoveAll(systemsDir)
	}
	if err := cells.Close(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// warmUp lets the driver start what it keeps, so that no test has to answer for it.
func warmUp() error {
	instance, err := cells.Create(context.Background(), sandbox.Spec{})
	if err != nil {
		return err
	}
	return instance.Destroy(context.Background())
}

// newEngine gives an engine that must leave nothing, no goroutine included.
func newEngine(t testing.TB) *engine.Engine { return newEngineWith(t, engine.Options{}) }

func newEngineWith(t testing.TB, opts engine.Options) *engine.Engine {
	t.Helper()
	if runtime.GOARCH != "amd64" {
		t.Skip("cells are forked on amd64 only")
	}
	before := runtime.NumGoroutine()
	e := engine.New(opts)
	t.Cleanup(func() {
		if err := e.Close(context.Background()); err != nil {
			t.Errorf("close: %v", err)
		}
		for _, n := range e.Tree() {
			if n.Ended == nil {
				t.Errorf("%s still lives", n.ID)
			}
		}
		if !eventually(func() bool { return runtime.NumGoroutine() <= before }) {
			stacks := make([]byte, 1<<20)
			t.Errorf("%d goroutines are left of %d:\n%s", runtime.NumGoroutine(), before, stacks[:runtime.Stack(stacks, true)])
		}
	})
	return e
}

// patience is how long what must happen is waited for, also on a host that is slow: who
// waits for it that long has found a defect.
const patience = 2 * time.Minute

func eventually(holds func() bool) bool {
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if holds() {
			return true
		}
	}
	return holds()
}

// longer has do tried with longer times, until the host is fast enough for one of them: do
// says whether it was. What fails for another reason fails with the last.
func longer(t *testing.T, first time.Duration, do func(t *testing.T, within time.Duration) (inTime bool)) {
	t.Helper()
	for _, times := range []time.Duration{1, 10, 100} {
		if do(t, times*first) {
			return
		}
		t.Logf("%v were not enough", times*first)
	}
	t.Error("no time is enough")
}

// need skips where the host, whose programs the cells have, lacks one.
func need(t testing.TB, programs ...string) {
	t.Helper()
	for _, program := range programs {
		if !slices.ContainsFunc([]string{"/usr/local/bin", "/usr/bin", "/bin"}, func(dir string) bool {
			_, err := os.Stat(filepath.Join(dir, program))
			return err == nil
		}) {
			t.Skipf("this host has no %s", program)
		}
	}
}

func prepare(t testing.TB, e *engine.Engine, recipe engine.Recipe) *engine.Template {
	t.Helper()
	template, err := e.Prepare(t.Context(), cells, recipe, nil)
	if err != nil {
		t.Fatal(err)
	}
	return template
}

// counting is a process that answers each line with a number that grows.
const counting = `
import sys
total = 40
print("primed", flush=True)
for line in sys.stdin:
    total += int(line)
    print(total, flush=True)
`

func countingRecipe() engine.Recipe {
	return engine.Recipe{Name: "counting", Command: []string{"python3", "-c", counting}, Ready: engine.Ready{Line: "primed"}}
}

func pythonRecipe(code string) engine.Recipe {
	return engine.Recipe{Name: "python", Code: &engine.Code{Language: interpreter.Python, Source: code}}
}

func fork(t testing.TB, from interface {
	Fork(context.Context, ...sandbox.Spec) ([]*engine.Child, error)
}, n int) []*engine.Child {
	t.Helper()
	children, err := from.Fork(t.Context(), make([]sandbox.Spec, n)...)
	if err != nil {
		t.Fatal(err)
	}
	return children
}

// ask writes a line to the resident command of a child and reads one.
func ask(t testing.TB, child *engine.Child, line string) string {
	t.Helper()
	streams, err := child.Streams(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fprintln(streams.Stdin, line); err != nil {
		t.Fatal(err)
	}
	answer, err := bufio.NewReader(streams.Stdout).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(answer)
}

// calc runs python in a child and gives the value.
func calc(t testing.TB, child *engine.Child, code string) string {
	t.Helper()
	context, err := child.Interpreter(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	result, err := context.Run(t.Context(), code, interpreter.Handler{})
	if err != nil || result.Error != nil || result.Main() == nil {
		t.Fatalf("%s: %+v, %v", code, result, err)
	}
	return result.Main().Text
}
