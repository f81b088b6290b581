package engine_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"runtime"
	"testing"

	"aether/engine"
	"aether/guest"
	"aether/interpreter"
	"aether/sandbox"
)

// A program prepares python once, with everything imported, and then gives every
// task a copy that is ready. It works over any driver that can fork.
func Example() {
	ctx := context.Background()
	var driver sandbox.Driver = cells
	e := engine.New(engine.Options{})
	defer e.Close(ctx)

	_, err := e.Prepare(ctx, driver, engine.Recipe{
		Name: "py",
		Code: &engine.Code{Language: interpreter.Python, Source: "import json, decimal, random\nx = 42"},
	}, nil)
	if err != nil {
		log.Fatal(err)
	}
	pool, err := e.Pool("tenant-1", "py", engine.PoolOptions{Size: 2})
	if err != nil {
		log.Fatal(err)
	}
	child, err := pool.Claim(ctx, "tenant-1")
	if err != nil {
		log.Fatal(err)
	}
	defer child.Destroy(ctx)
	python, err := child.Interpreter(ctx)
	if err != nil {
		log.Fatal(err)
	}
	result, err := python.Run(ctx, "json.loads(json.dumps([x, x + 1]))", interpreter.Handler{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(result.Main().Text) // [42, 43]
}

// TestExample runs the example, which cannot skip by itself, where it can run.
func TestExample(t *testing.T) {
	need(t, "python3")
	if runtime.GOARCH != "amd64" {
		t.Skip("cells are forked on amd64 only")
	}
	prints(t, Example, "[42, 43]\n")
}

func TestExampleOpen(t *testing.T) {
	h := newHouse(t, sandbox.Checkpoint)
	exampleOptions = h.options
	prints(t, ExampleOpen, "it goes on\n")
}

// exampleOptions are the state directory and the drivers of ExampleOpen.
var exampleOptions func() engine.Options

// prints runs an example and holds its output against what it says.
func prints(t *testing.T, example func(), want string) {
	t.Helper()
	stdout := os.Stdout
	defer func() { os.Stdout = stdout }()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	os.Stdout = w
	example()
	w.Close()
	if said, err := io.ReadAll(r); err != nil || string(said) != want {
		t.Errorf("it prints %q, %v", said, err)
	}
}

// A program that is restarted while agents work: what was made to outlive it goes on.
func ExampleOpen() {
	ctx := context.Background()
	who := engine.Caller{Tenant: "tenant-1", Name: "example"}
	opts := exampleOptions()
	e, err := engine.Open(opts)
	if err != nil {
		log.Fatal(err)
	}
	made, err := e.Create(ctx, who, engine.CreateRequest{Keep: true, Key: "the first"})
	if err != nil {
		log.Fatal(err)
	}
	if err := e.Close(ctx); err != nil { // as on SIGTERM
		log.Fatal(err)
	}

	if e, err = engine.Open(opts); err != nil {
		log.Fatal(err)
	}
	defer e.Close(ctx)
	client, release, err := e.Guest(ctx, who, made.ID) // which waits until it runs
	if err != nil {
		log.Fatal(err)
	}
	defer release()
	running, err := client.Start(ctx, guest.Cmd{Path: "echo", Args: []string{"it", "goes", "on"}, Stdout: os.Stdout})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := running.Wait(); err != nil {
		log.Fatal(err)
	}
}
