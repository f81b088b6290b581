package holder_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"aether/cli/holder"
	"aether/driver/cell"
	"aether/engine"
	"aether/guest"
	"aether/image"
	"aether/sandbox"
)

var cells *cell.Driver

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	if play, ok := plays[os.Getenv(plantedRole)]; ok {
		if err := play(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return 0
	}
	dir, err := os.MkdirTemp("", "holder-")
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

// newDir is short enough for the path of a socket.
func newDir(t *testing.T) holder.Dir {
	t.Helper()
	dir, err := os.MkdirTemp("", "h")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return holder.In(dir)
}

// hold serves a template of a sleeping process until the test ends, and gives a
// client of it.
func hold(t *testing.T, dir holder.Dir, name string, ahead int) (*holder.Client, *engine.Engine) {
	t.Helper()
	if runtime.GOARCH != "amd64" {
		t.Skip("cells are forked on amd64 only")
	}
	place, err := dir.Take(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	e := engine.New(engine.Options{})
	template, err := e.Prepare(t.Context(), cells, engine.Recipe{Name: name, Command: []string{"sleep", "1000"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	ready, served := make(chan struct{}), make(chan error, 1)
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		served <- place.Serve(ctx, holder.Options{Engine: e, Template: template, Ahead: ahead, Ready: func(holder.Info) { close(ready) }})
	}()
	t.Cleanup(func() {
		cancel()
		if err := errors.Join(<-served, e.Close(context.Background()), place.Release()); err != nil {
			t.Error(err)
		}
	})
	<-ready
	client, err := dir.Dial(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client, e
}

func living(e *engine.Engine) (n int) {
	for _, node := range e.Tree() {
		if node.Parent != "" && node.Ended == nil {
			n++
		}
	}
	return n
}

func TestForkThroughAHolder(t *testing.T) {
	client, e := hold(t, newDir(t), "one", 0)
	driver, err := client.Driver(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := cells.Info()
	want.Verbs = sandbox.Verbs{} // what a holder gives can be used, and no more
	if driver.Info() != want || !driver.Probe(t.Context()).Usable {
		t.Errorf("%+v", driver.Info())
	}
	instance, err := driver.Create(t.Context(), sandbox.Spec{Limits: sandbox.Limits{Processes: 50}})
	if err != nil {
		t.Fatal(err)
	}
	inside := guest.NewClient(instance.Dial, guest.ClientOptions{})
	defer inside.Close()
	var out strings.Builder
	running, err := inside.Start(t.Context(), guest.Cmd{Path: "echo", Args: []string{"hello"}, Stdout: &out})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := running.Wait(); err != nil || out.String() != "hello\n" {
		t.Errorf("%q, %v", out.String(), err)
	}
	if stats, err := instance.Stats(t.Context()); err != nil || stats.Processes != nil && *stats.Processes < 1 {
		t.Errorf("%+v, %v", stats, err)
	}
	for range 2 {
		if err := instance.Destroy(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if _, err := instance.Wait(t.Context()); err != nil {
		t.Error(err)
	}
	// The tree hears of the end from whoever waits for it there.
	for end := time.Now().Add(10 * time.Second); living(e) != 0 && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	if n := living(e); n != 0 {
		t.Errorf("%d live", n)
	}
	if _, err := instance.Stats(t.Context()); sandbox.ClassOf(err) != sandbox.NotFound {
		t.Errorf("stats of what is gone: %v", err)
	}
	if _, err := instance.Dial(t.Context()); sandbox.ClassOf(err) != sandbox.NotFound {
		t.Errorf("a connection to what is gone: %v", err)
	}
}

func TestHolderRefuses(t *testing.T) {
	client, _ := hold(t, newDir(t), "one", 0)
	if _, err := client.Fork(t.Context(), sandbox.Spec{Image: "other"}); sandbox.ClassOf(err) != sandbox.Invalid {
		t.Errorf("another image: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := client.Fork(ctx, sandbox.Spec{}); err == nil {
		t.Error("a fork for nobody")
	}
}

func TestHolderClaims(t *testing.T) {
	client, _ := hold(t, newDir(t), "one", 2)
	child, err := client.Fork(t.Context(), sandbox.Spec{})
	if err != nil {
		t.Fatal(err)
	}
	defer child.Destroy(t.Context())
	info, err := client.Info(t.Context())
	if err != nil || info.Pool == nil || info.Pool.Claimed != 1 || child.Took() <= 0 {
		t.Errorf("%+v, %v", info.Pool, err)
	}
}

func TestHolderEndsWhenAsked(t *testing.T) {
	dir := newDir(t)
	client, _ := hold(t, dir, "one", 0)
	child, err := client.Fork(t.Context(), sandbox.Spec{})
	if err != nil {
		t.Fatal(err)
	}
	if err := client.End(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := child.Wait(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestDir(t *testing.T) {
	dir := newDir(t)
	if names, err := dir.Names(); err != nil || len(names) != 0 {
		t.Errorf("%v, %v", names, err)
	}
	if _, err := dir.Dial(t.Context(), "none"); sandbox.ClassOf(err) != sandbox.NotFound {
		t.Errorf("none: %v", err)
	}
	if _, err := dir.Dial(t.Context(), "../x"); sandbox.ClassOf(err) != sandbox.Invalid {
		t.Errorf("a path: %v", err)
	}
	place, err := dir.Take(t.Context(), "one")
	if err != nil {
		t.Fatal(err)
	}
	recipe := engine.Recipe{Name: "one", Command: []string{"true"}}
	if err := place.Announce(recipe); err != nil {
		t.Fatal(err)
	}
	place.Logger().Error("it is over")
	if held, err := dir.Held("one"); err != nil || !held {
		t.Errorf("it is not held, %v", err)
	}
	if _, err := dir.Take(t.Context(), "one"); sandbox.ClassOf(err) != sandbox.Conflict {
		t.Errorf("taken twice: %v", err)
	}
	if m, err := dir.Manifest("one"); err != nil || m.Holder != os.Getpid() || m.Recipe.Command[0] != "true" {
		t.Errorf("%+v, %v", m, err)
	}
	if text, err := dir.Log("one"); err != nil || !strings.Contains(text, "it is over") {
		t.Errorf("%q, %v", text, err)
	}
	if _, err := dir.Dial(t.Context(), "one"); sandbox.ClassOf(err) != sandbox.Unavailable {
		t.Errorf("nobody answers there: %v", err)
	}
	if err := place.Release(); err != nil {
		t.Error(err)
	}
	if err := dir.Remove(t.Context(), "one"); sandbox.ClassOf(err) != sandbox.NotFound {
		t.Errorf("removed twice: %v", err)
	}
}

func TestFailures(t *testing.T) {
	for _, err := range []error{errors.New("plain"), sandbox.Invalidf("image", "is wrong"),
		fmt.Errorf("outer: %w", &sandbox.Error{Class: sandbox.Exhausted, Reason: "full", Remedy: "wait", Retry: true})} {
		back := holder.FailureOf(err).Err()
		if back.Error() != err.Error() || sandbox.ClassOf(back) != sandbox.ClassOf(err) {
			t.Errorf("%v comes back as %v", err, back)
		}
	}
}
