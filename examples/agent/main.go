// Command agent is the loop of an agent in one program: it makes a sandbox for a
// tool call, primes an interpreter once as a template, forks it for three
// attempts at a task, reads what each left and gives everything back. It prints
// what it does; docs/embedding.md explains it.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"aether/driver/cell"
	"aether/engine"
	"aether/guest"
	"aether/image"
	"aether/interpreter"
	"aether/sandbox"
)

// Statuses for whoever starts this program. Those of the host are told apart from
// failures of the program, as every caller of a sandbox can do by the class of an
// error.
const (
	statusFailed      = 1
	statusUnavailable = 69 // EX_UNAVAILABLE
)

func main() {
	err := run(context.Background(), os.Stdout)
	if err == nil {
		return
	}
	fmt.Fprintln(os.Stderr, "agent:", err)
	if class := sandbox.ClassOf(err); class == sandbox.Unavailable || class == sandbox.Unsupported {
		os.Exit(statusUnavailable)
	}
	os.Exit(statusFailed)
}

// run joins the parts. Each is given back in the reverse order, and what cannot be
// given back is an error like any other.
func run(ctx context.Context, out io.Writer) (err error) {
	dir, err := os.MkdirTemp("", "aether-agent-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	driver := newDriver(dir)
	defer func() { err = errors.Join(err, driver.Close(ctx)) }()
	if err := driver.Probe(ctx).Err(driver.Info().Name); err != nil {
		return err
	}
	if err := callTool(ctx, out, driver); err != nil {
		return err
	}
	return tryThrice(ctx, out, driver)
}

// newDriver makes a driver of cells whose images and locks are below dir. A program
// that stays would use a directory that lasts, so that images are unpacked once.
func newDriver(dir string) *cell.Driver {
	images := func() (*image.Store, error) { return image.Open(filepath.Join(dir, "images")) }
	return cell.New(cell.Options{Images: images, RunDir: filepath.Join(dir, "run")})
}

// callTool runs one command in a sandbox of its own and reads a file that it wrote.
func callTool(ctx context.Context, out io.Writer, driver sandbox.Driver) (err error) {
	instance, err := driver.Create(ctx, sandbox.Spec{}) // the host's system, no network
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, instance.Destroy(ctx)) }()
	client := guest.ClientFor(instance, guest.ClientOptions{})
	defer client.Close()
	var said strings.Builder
	tool, err := client.Start(ctx, guest.Cmd{Path: "sh", Args: []string{"-c", "echo note > ~/note; id -un"}, Stdout: &said})
	if err != nil {
		return err
	}
	status, err := tool.Wait()
	if err != nil {
		return err
	}
	note, err := read(ctx, client, "note") // below the user's home
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "a tool ended with status %d as %s and left the note %q\n", status.Code, strings.TrimSpace(said.String()), note)
	return nil
}

// attempt is what is asked of an interpreter, by its language.
type attempt struct{ prime, try string }

var attempts = map[interpreter.Language]attempt{
	interpreter.Python: {"import json\nfacts = {'answer': 42}", "open('result', 'w').write(json.dumps(facts['answer'] + %d))"},
	interpreter.Bash:   {"answer=42", "echo -n $((answer + %d)) > result"},
}

// tryThrice primes an interpreter once and gives each of three attempts a copy.
func tryThrice(ctx context.Context, out io.Writer, driver sandbox.Driver) (err error) {
	language := interpreter.Python
	if _, missing := exec.LookPath("python3"); missing != nil {
		language = interpreter.Bash // the image is the host's own system
	}
	work := engine.New(engine.Options{})
	defer func() { err = errors.Join(err, work.Close(ctx)) }()
	recipe := engine.Recipe{Name: "primed", Code: &engine.Code{Language: language, Source: attempts[language].prime}}
	template, err := work.Prepare(ctx, driver, recipe, nil)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%s is primed and %s\n", language, map[bool]string{true: "frozen", false: "ready"}[template.Frozen()])
	children, err := template.Fork(ctx, make([]sandbox.Spec, 3)...)
	if err != nil {
		return err
	}
	for n, child := range children {
		result, err := try(ctx, child, fmt.Sprintf(attempts[language].try, n))
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "attempt %d of %d left %q\n", n+1, len(children), result)
	}
	return nil
}

// try runs code in the child's copy of the interpreter, and ends the child.
func try(ctx context.Context, child *engine.Child, code string) (_ string, err error) {
	defer func() { err = errors.Join(err, child.Destroy(ctx)) }()
	context, err := child.Interpreter(ctx)
	if err != nil {
		return "", err
	}
	result, err := context.Run(ctx, code, interpreter.Handler{})
	if err != nil {
		return "", err
	}
	if result.Error != nil { // the code's own failure, which an agent would show its model
		return "", fmt.Errorf("%s: %s", result.Error.Name, result.Error.Message)
	}
	return read(ctx, child.Client(), "result")
}

// maxResult bounds what is taken of a file: it comes from inside a sandbox.
const maxResult = 1 << 16

func read(ctx context.Context, client *guest.Client, path string) (_ string, err error) {
	file, err := client.Read(ctx, path)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	text, err := io.ReadAll(io.LimitReader(file, maxResult))
	return strings.TrimSpace(string(text)), err
}
