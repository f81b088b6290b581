package cli

import (
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"aether/interpreter"
	"aether/sandbox"
)

// codeResult is the JSON answer of run for code in a template's interpreter.
type codeResult struct {
	Sandbox  string           `json:"sandbox"`
	Template string           `json:"template"`
	Driver   string           `json:"driver"`
	Boundary sandbox.Boundary `json:"boundary"`
	Exit     int              `json:"exit"`
	TimedOut bool             `json:"timed_out,omitempty"`
	Times    codeTimes        `json:"times"`
	interpreter.Result
}

// codeTimes are in milliseconds: the fork by itself, and the others since the
// beginning of the command line's work.
type codeTimes struct {
	Fork      float64  `json:"fork_ms"`
	Created   float64  `json:"created_ms"`
	FirstByte *float64 `json:"first_byte_ms,omitempty"`
	Exit      float64  `json:"exit_ms"`
}

// coding is one piece of code in one fork.
type coding struct {
	flags  *runFlags
	cmd    *cobra.Command
	driver *forks
	start  time.Time
	first  firstByte
	answer codeResult
}

func (f *runFlags) runCode(cmd *cobra.Command, driver *forks, spec sandbox.Spec) error {
	if f.terminal {
		return sandbox.Invalidf("-t", "code has no terminal")
	}
	code, err := f.codeOf(cmd.InOrStdin())
	if err != nil {
		return err
	}
	info := driver.Info()
	c := &coding{flags: f, cmd: cmd, driver: driver, start: time.Now(),
		answer: codeResult{Template: f.template, Driver: info.Name, Boundary: info.Boundary}}
	return c.run(spec, code)
}

func (c *coding) run(spec sandbox.Spec, code string) (err error) {
	// The first signal interrupts the code; a second one ends us, and the child
	// with us.
	ctx, stop := signal.NotifyContext(c.cmd.Context(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	context.AfterFunc(ctx, stop)
	child, err := c.driver.fork(ctx, spec)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, child.Destroy(context.Background())) }()
	c.answer.Sandbox, c.answer.Times.Created = child.ID(), c.since(time.Now())
	c.answer.Times.Fork = float64(child.Took.Microseconds()) / 1000
	copied, err := interpreter.Attach(ctx, child.inside, *child.Resident.Interpreter, interpreter.Options{})
	if err != nil {
		return ofSandbox(err)
	}
	defer copied.Detach()
	return c.call(ctx, copied, code)
}

// call runs the code and prints what it gives.
func (c *coding) call(ctx context.Context, copied *interpreter.Context, code string) (err error) {
	if c.flags.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.flags.timeout)
		defer cancel()
	}
	handler := interpreter.Handler{Stdout: &c.first, Stderr: &c.first}
	if !c.flags.json {
		handler.Stdout = io.MultiWriter(&c.first, c.cmd.OutOrStdout())
		handler.Stderr = io.MultiWriter(&c.first, c.cmd.ErrOrStderr())
	}
	c.answer.Result, err = copied.Run(ctx, code, handler)
	c.answer.Times.Exit = c.since(time.Now())
	status, err := c.status(ctx, err)
	if err != nil {
		return err
	}
	c.answer.Exit = status
	if c.flags.json {
		err = c.printJSON()
	} else {
		err = c.printText()
	}
	if err != nil || status == 0 {
		return err
	}
	return exitCode(status)
}

// status is the exit status, or the error if the call failed for another reason
// than the code.
func (c *coding) status(ctx context.Context, err error) (int, error) {
	var ended *interpreter.Ended
	switch {
	case sandbox.ClassOf(err) == sandbox.Timeout:
		c.answer.TimedOut = true
		return statusTimeout, nil
	case err != nil && ctx.Err() != nil:
		return statusSignalBase + int(syscall.SIGINT), nil
	case errors.As(err, &ended) && ended.Status != nil:
		return exitStatus(*ended.Status, false), nil // the code has ended the interpreter
	case err != nil:
		return 0, err
	case c.answer.Error != nil:
		return failureStatus(c.answer.Error), nil
	}
	return c.answer.Status, nil
}

// failureStatus is 1, or what python code gave to sys.exit.
func failureStatus(e *interpreter.Error) int {
	if status, err := strconv.Atoi(e.Message); e.Name == pythonExit && err == nil {
		return status & 0xff
	}
	return 1
}

const pythonExit = "SystemExit"

func (c *coding) printText() error {
	if c.answer.TimedOut {
		printError(c.cmd, "aether: the code was ended after %v (--timeout)", c.flags.timeout)
	} else if e := c.answer.Error; e != nil && e.Name != pythonExit {
		printError(c.cmd, "%s", errorText(e))
	}
	if v := c.answer.Main(); v != nil && v.Text != "" {
		return printText(c.cmd, v.Text)
	}
	return nil
}

func errorText(e *interpreter.Error) string {
	if e.Traceback != "" {
		return strings.TrimRight(e.Traceback, "\n")
	}
	return e.Name + ": " + e.Message
}

func (c *coding) printJSON() error {
	if !c.first.at.IsZero() {
		at := c.since(c.first.at)
		c.answer.Times.FirstByte = &at
	}
	return printJSON(c.cmd, c.answer)
}

func (c *coding) since(t time.Time) float64 {
	return float64(t.Sub(c.start).Microseconds()) / 1000
}
