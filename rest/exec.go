package rest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"aether/guest"
	"aether/sandbox"
)

const (
	maxOutput   = 1 << 20
	maxArgs     = 4096
	execTime    = 5 * time.Minute
	maxExecTime = time.Hour
	killTime    = 5 * time.Second
)

// ExecRequest is a command to run to its end. Whoever wants its output as it comes, or a
// terminal, asks the guest service.
type ExecRequest struct {
	// Command is the program and its arguments.
	Command []string          `json:"command"`
	Env     map[string]string `json:"env,omitempty"`
	WorkDir string            `json:"workdir,omitempty"`
	Stdin   string            `json:"stdin,omitempty"`
	// Timeout ends the command and everything it started, an hour at most and five
	// minutes by default.
	Timeout time.Duration `json:"timeout_ns,omitempty"`
}

// ExecResult is how a command ended, and the first of what it wrote.
type ExecResult struct {
	// Process is the number that it had inside.
	Process  int `json:"process"`
	ExitCode int `json:"exit_code"`
	// Signal is what killed it, if one did.
	Signal      int  `json:"signal,omitempty"`
	OutOfMemory bool `json:"out_of_memory,omitempty"`
	// TimedOut says that it was ended because its time was over.
	TimedOut bool   `json:"timed_out,omitempty"`
	Stdout   Output `json:"stdout"`
	Stderr   Output `json:"stderr"`
}

// Output is what a command wrote, or a console.
type Output struct {
	// Text is it; or Bytes are, where it is no UTF-8.
	Text  string `json:"text"`
	Bytes []byte `json:"bytes,omitempty"`
	// Truncated says that there was more.
	Truncated bool `json:"truncated,omitempty"`
}

func (r ExecRequest) validate() error {
	switch {
	case len(r.Command) == 0 || r.Command[0] == "":
		return sandbox.Invalidf("command", "it names no program")
	case len(r.Command) > maxArgs:
		return sandbox.Invalidf("command", "%d arguments are more than %d", len(r.Command), maxArgs)
	case r.Timeout < 0 || r.Timeout > maxExecTime:
		return sandbox.Invalidf("timeout_ns", "%v is not between 0 and %v", r.Timeout, maxExecTime)
	}
	return nil
}

// exec runs a command to its end.
func (s *Server) exec(a *answer, r *request) (any, error) {
	var req ExecRequest
	if err := s.body(a, r, &req); err != nil {
		return nil, err
	}
	if err := req.validate(); err != nil {
		return nil, err
	}
	leave, err := s.streams.enter(r.who.Name)
	if err != nil {
		return nil, err
	}
	defer leave()
	client, release, err := s.opts.Engine.Guest(r.Context(), r.who, r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	defer release()
	ctx, cancel := context.WithTimeout(r.Context(), cmp.Or(req.Timeout, execTime))
	defer cancel()
	result, err := runToEnd(ctx, client, req)
	if err != nil {
		return nil, guestError(r, err)
	}
	return result, nil
}

func runToEnd(ctx context.Context, client *guest.Client, req ExecRequest) (ExecResult, error) {
	var stdout, stderr head
	cmd := guest.Cmd{Path: req.Command[0], Args: req.Command[1:], Env: req.Env, Dir: req.WorkDir, Stdout: &stdout, Stderr: &stderr}
	if req.Stdin != "" {
		cmd.Stdin = strings.NewReader(req.Stdin)
	}
	running, err := client.Start(ctx, cmd)
	if err != nil {
		return ExecResult{}, err
	}
	status, err := running.Wait()
	timedOut := sandbox.ClassOf(err) == sandbox.Timeout
	if err != nil && !timedOut {
		return ExecResult{}, errors.Join(err, abandon(ctx, running))
	}
	return ExecResult{Process: running.Pid(), ExitCode: status.Code, Signal: int(status.Signal), OutOfMemory: status.OutOfMemory, TimedOut: timedOut, Stdout: stdout.output(), Stderr: stderr.output()}, nil
}

// abandon ends a command whose caller is gone. Those that it started end when its time is
// over.
func abandon(ctx context.Context, running *guest.Running) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), killTime)
	defer cancel()
	err := running.Signal(ctx, syscall.SIGKILL)
	if sandbox.ClassOf(err) == sandbox.NotFound {
		return nil
	}
	return err
}

// head keeps the first of what is written to it, and takes the rest.
type head struct {
	kept      bytes.Buffer
	truncated bool
}

// Write implements io.Writer.
func (h *head) Write(b []byte) (int, error) {
	room := maxOutput - h.kept.Len()
	h.truncated = h.truncated || len(b) > room
	h.kept.Write(b[:min(len(b), room)])
	return len(b), nil
}

// output drops what was cut in the middle of a letter.
func (h *head) output() Output {
	text := h.kept.Bytes()
	if h.truncated {
		text = wholeLetters(text)
	}
	if !utf8.Valid(text) {
		text = h.kept.Bytes()
	}
	return newOutput(text, h.truncated)
}

// newOutput gives bytes as text if they are.
func newOutput(b []byte, truncated bool) Output {
	if !utf8.Valid(b) {
		return Output{Bytes: b, Truncated: truncated}
	}
	return Output{Text: string(b), Truncated: truncated}
}

func wholeLetters(text []byte) []byte {
	for cut := 1; cut < utf8.UTFMax && cut <= len(text); cut++ {
		if last := text[len(text)-cut]; utf8.RuneStart(last) {
			if !utf8.FullRune(text[len(text)-cut:]) {
				return text[:len(text)-cut]
			}
			return text
		}
	}
	return text
}

// String is what was written, whether it is text or not.
func (o Output) String() string {
	if o.Bytes != nil {
		return string(o.Bytes)
	}
	return o.Text
}
