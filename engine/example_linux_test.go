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
	stdout := os.Stdout
	defer func() { os.Stdout = stdout }()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	os.Stdout = w
	Example()
	w.Close()
	if said, err := io.ReadAll(r); err != nil || string(said) != "[42, 43]\n" {
		t.Errorf("it prints %q, %v", said, err)
	}
}
