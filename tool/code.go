package tool

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"aether/engine"
	"aether/guest"
	"aether/interpreter"
	"aether/sandbox"
)

type codeArgs struct {
	of
	Language string `json:"language" enum:"python,node,typescript,bash"`
	Code     string `json:"code" max:"1048576"`
	TimeoutS int    `json:"timeout_s,omitempty" jsonschema:"default 60, at most 3600"`
	Restart  bool   `json:"restart,omitempty" jsonschema:"forget earlier state first"`
}

func codeTools() []*Tool {
	return []*Tool{
		define("code_run", Writes, "Run code in an interpreter that stays: variables and imports last from call to call, and into forks. Gives the value of the last expression.", (*Session).code).inCompact(),
	}
}

// CodeResult is what code gave.
type CodeResult struct {
	// Value is the text of the last expression.
	Value  string `json:"value,omitempty"`
	Stdout Stream `json:"stdout"`
	Stderr Stream `json:"stderr"`
	// Error is how the code failed; the interpreter goes on.
	Error *CodeError `json:"code_error,omitempty"`
	// ExitCode is that of bash's last command.
	ExitCode int `json:"exit_code,omitempty"`
	// Displayed are values that were shown on the way, and the pictures among them.
	Displayed []string `json:"displayed,omitempty"`
	PNG       [][]byte `json:"png,omitempty"`
	// Fresh says that the interpreter was started by this call, and knows of none before.
	Fresh bool `json:"fresh,omitempty"`
	// Ended says that the interpreter is gone; the next call starts another.
	Ended string `json:"ended,omitempty"`
	// TimedOut says that the code was interrupted because its time was over.
	TimedOut  bool `json:"timed_out,omitempty"`
	Truncated bool `json:"truncated,omitempty"`
}

// CodeError is a failure of the code that was run.
type CodeError struct {
	Name      string `json:"name"`
	Message   string `json:"message"`
	Traceback string `json:"traceback,omitempty"`
}

const (
	maxTraceback = 8 << 10
	maxPicture   = 1 << 20
	maxShown     = 16
)

func (s *Session) code(ctx context.Context, in codeArgs) (result CodeResult, err error) {
	took, err := seconds("timeout_s", in.TimeoutS, int(maxRunTime.Seconds()))
	if err != nil {
		return result, err
	}
	if took == 0 {
		took = runTime
	}
	found, err := s.enter(ctx, in.Sandbox, took)
	if err != nil {
		return result, err
	}
	release, err := s.state.take(ctx, in.Sandbox)
	if err != nil {
		return result, err
	}
	defer release()
	err = s.inside(ctx, in.Sandbox, took, func(client *guest.Client) error {
		c, fresh, err := s.interpreter(ctx, client, found, interpreter.Language(in.Language), in.Restart)
		if err != nil {
			return err
		}
		defer c.Detach()
		result, err = runCode(ctx, c, in.Code, took)
		result.Fresh = fresh
		return err
	})
	return result, err
}

// interpreter attaches to the one of a language that runs, or starts one.
func (s *Session) interpreter(ctx context.Context, client *guest.Client, found engine.Sandbox, language interpreter.Language, restart bool) (_ *interpreter.Context, fresh bool, err error) {
	opts := interpreter.Options{Tag: codeTag + string(language), Limits: interpreter.Limits{OutputBytes: keptOutput, TextBytes: maxBytes, ValueBytes: 4 * mega, TotalBytes: 8 * mega, Values: 64}}
	known, ok := s.state.code(found.ID, language)
	if r := found.Resident; !ok && r != nil && r.Interpreter != nil && r.Interpreter.Language == language {
		known, ok = codeContext{handle: *r.Interpreter}, true
	}
	if ok {
		c, err := interpreter.Attach(ctx, client, known.handle, opts)
		switch {
		case err == nil && restart:
			if err := c.Close(ctx); err != nil {
				return nil, false, err
			}
		case err == nil:
			if known.copied {
				if _, err := c.Reseed(ctx); err != nil {
					c.Detach()
					return nil, false, err
				}
				known.copied = false
			}
			s.state.setCode(found.ID, known)
			return c, false, nil
		case sandbox.ClassOf(err) != sandbox.NotFound:
			return nil, false, err
		}
	}
	if !ok && found.Created.Before(s.state.born) {
		if err := leftBehind(ctx, client, opts.Tag, restart); err != nil {
			return nil, false, err
		}
	}
	c, err := interpreter.Start(ctx, client, language, opts)
	if err != nil {
		return nil, false, err
	}
	s.state.setCode(found.ID, codeContext{handle: c.Handle()})
	return c, true, nil
}

// codeTag is what the interpreters of code_run are called by the guest service, before their language.
const codeTag = "code_run:"

// leftBehind finds interpreters that calls of a server before this one have used. Nobody knows how
// they are spoken with any more: code that relies on what they hold must not be run in a new one
// unasked. Errors: Conflict.
func leftBehind(ctx context.Context, client *guest.Client, tag string, restart bool) error {
	running, err := client.Processes(ctx)
	if err != nil {
		return err
	}
	for _, p := range running {
		if p.GetTag() != tag {
			continue
		}
		if !restart {
			return &sandbox.Error{Class: sandbox.Conflict, Field: "restart", Reason: fmt.Sprintf("the interpreter of earlier calls (process %d) was that of a server that has ended, and cannot be used any more", p.GetPid()),
				Remedy: "call again with restart, and have the code not rely on what was defined before"}
		}
		if err := client.Signal(ctx, int(p.GetPid()), syscall.SIGKILL); err != nil && sandbox.ClassOf(err) != sandbox.NotFound {
			return err
		}
	}
	return nil
}

func runCode(ctx context.Context, c *interpreter.Context, code string, took time.Duration) (result CodeResult, err error) {
	ctx, cancel := context.WithTimeout(ctx, took)
	defer cancel()
	given, err := c.Run(ctx, code, interpreter.Handler{})
	window := window{nil, defaultBytes}
	result = CodeResult{Stdout: window.of([]byte(given.Before.Stdout+given.Logs.Stdout), given.Dropped.StdoutBytes > 0),
		Stderr:   window.of([]byte(given.Before.Stderr+given.Logs.Stderr), given.Dropped.StderrBytes > 0),
		ExitCode: given.Status, Truncated: given.Dropped.Values > 0}
	for _, v := range given.Values {
		result.show(v)
	}
	if e := given.Error; e != nil {
		result.Error = &CodeError{clip(e.Name, 200), clip(e.Message, maxTraceback), clip(e.Traceback, maxTraceback)}
	}
	var ended *interpreter.Ended
	switch {
	case errors.As(err, &ended):
		result.Ended, result.TimedOut = clip(ended.Error(), maxReason), sandbox.ClassOf(err) == sandbox.Timeout
		return result, nil
	case sandbox.ClassOf(err) == sandbox.Timeout:
		result.TimedOut = true
		return result, nil
	}
	return result, err
}

// show adds a value in the forms that are told.
func (r *CodeResult) show(v interpreter.Value) {
	text := v.Text
	if len(text) > defaultBytes {
		text, r.Truncated = clip(text, defaultBytes), true
	}
	r.Truncated = r.Truncated || v.Truncated
	switch {
	case v.Main:
		r.Value = text
	case text != "" && len(r.Displayed) < maxShown:
		r.Displayed = append(r.Displayed, text)
	case text != "":
		r.Truncated = true
	}
	switch {
	case len(v.PNG) == 0:
	case len(v.PNG) <= maxPicture && len(r.PNG) < maxShown/4:
		r.PNG = append(r.PNG, v.PNG)
	default:
		r.Truncated = true
	}
}
