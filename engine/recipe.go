package engine

import (
	"strings"
	"time"

	"aether/interpreter"
	"aether/sandbox"
)

// Recipe is what a template is made of.
type Recipe struct {
	// Name is how the template is asked for: lower-case letters, digits and
	// dashes, at most 40.
	Name string `json:"name"`
	// Spec is the sandbox; its children have its limits unless they state others.
	Spec sandbox.Spec `json:"spec,omitzero"`
	// Run are commands that are run to their ends, one after another; one that
	// fails fails the preparation.
	Run [][]string `json:"run,omitempty"`
	// Steps come after those commands, and say more of what is done.
	Steps []Step `json:"steps,omitempty"`
	// Command is the process that is left running, unless Code is.
	Command []string `json:"command,omitempty"`
	// Code is run in an interpreter that is left running, unless a Command is.
	Code *Code `json:"code,omitempty"`
	// Idle says that nothing need be left running: a Command may end well, and there may be
	// none.
	Idle bool `json:"idle,omitempty"`
	// Ready says when the template can be forked.
	Ready Ready `json:"ready,omitzero"`
}

// Code is run once in an interpreter, which then waits for more.
type Code struct {
	Language interpreter.Language `json:"language"`
	Source   string               `json:"source,omitempty"`
}

// Ready is a condition. The zero value holds as soon as the process runs or its
// code has run; at most one of Line, File and Command is set.
type Ready struct {
	// Line is a text that a line of the command's output contains.
	Line string `json:"line,omitempty"`
	// File is a path that exists.
	File string `json:"file,omitempty"`
	// Command is one that succeeds; it is tried again and again.
	Command []string `json:"command,omitempty"`
	// Timeout bounds the preparation from its first command on; zero means
	// DefaultTimeout.
	Timeout time.Duration `json:"timeout_ns,omitempty"`
}

const (
	// DefaultTimeout is for preparations that state none.
	DefaultTimeout = 2 * time.Minute

	maxName      = 40
	maxRun       = 256
	maxArguments = 4096
	maxText      = 1 << 20 // of one command
)

// Validate checks everything that can be checked without a host. Every error is
// Invalid and names the field.
func (r Recipe) Validate() error {
	if err := ValidName(r.Name); err != nil {
		return err
	}
	if err := r.Spec.Validate(); err != nil {
		return err
	}
	if r.Spec.Timeouts.Lifetime != 0 {
		return sandbox.Invalidf("timeouts.lifetime", "a template has none; state it for its children")
	}
	if len(r.Run)+len(r.Steps) > maxRun {
		return sandbox.Invalidf("run", "%d commands are more than %d", len(r.Run)+len(r.Steps), maxRun)
	}
	for _, command := range r.Run {
		if err := validCommand("run", command); err != nil {
			return err
		}
	}
	for _, step := range r.Steps {
		if err := step.validate(); err != nil {
			return err
		}
	}
	if err := r.validateResident(); err != nil {
		return err
	}
	return r.Ready.validate(r.Code != nil)
}

// ValidName checks the name of a template.
func ValidName(name string) error {
	if !sandbox.IsName(name, maxName) {
		return sandbox.Invalidf("name", "%.80q must be lower-case letters, digits and dashes, at most 40", name)
	}
	return nil
}

func (r Recipe) validateResident() error {
	switch {
	case len(r.Command) == 0 && r.Code == nil && r.Idle:
		if r.Ready.Line != "" {
			return sandbox.Invalidf("ready.line", "there is no command whose output could have it")
		}
		return nil
	case len(r.Command) == 0 && r.Code == nil:
		e := sandbox.Invalidf("command", "there is nothing to leave running")
		e.Remedy = "give a command or code"
		return e
	case len(r.Command) > 0 && r.Code != nil:
		return sandbox.Invalidf("code", "a template leaves a command or an interpreter running, not both")
	case r.Code != nil:
		return r.Code.validate()
	}
	return validCommand("command", r.Command)
}

func (c Code) validate() error {
	for _, known := range interpreter.Languages() {
		if c.Language == known {
			return nil
		}
	}
	e := sandbox.Invalidf("language", "%.40q is not known", string(c.Language))
	e.Remedy = "use one of python, node, typescript, bash"
	return e
}

func validCommand(field string, command []string) error {
	size := 0
	for _, argument := range command {
		size += len(argument)
		if strings.ContainsRune(argument, 0) {
			return sandbox.Invalidf(field, "%.40q holds a zero byte", argument)
		}
	}
	if len(command) == 0 || command[0] == "" {
		return sandbox.Invalidf(field, "a command is empty")
	}
	if len(command) > maxArguments || size > maxText {
		return sandbox.Invalidf(field, "a command has over %d arguments or %d bytes", maxArguments, maxText)
	}
	return nil
}

func (r Ready) validate(code bool) error {
	conditions := 0
	for _, set := range []bool{r.Line != "", r.File != "", len(r.Command) > 0} {
		if set {
			conditions++
		}
	}
	switch {
	case conditions > 1:
		return sandbox.Invalidf("ready", "it is a line, a file or a command, and only one of them")
	case r.Line != "" && code:
		return sandbox.Invalidf("ready.line", "code is ready when it has run; its output is not waited for")
	case strings.ContainsAny(r.Line, "\n\x00") || len(r.Line) > maxLine:
		return sandbox.Invalidf("ready.line", "it is not one line of at most %d bytes", maxLine)
	case r.File != "" && !strings.HasPrefix(r.File, "/"):
		return sandbox.Invalidf("ready.file", "%.80q is not an absolute path", r.File)
	case r.Timeout < 0:
		return sandbox.Invalidf("ready.timeout", "%v is negative", r.Timeout)
	case len(r.Command) > 0:
		return validCommand("ready.command", r.Command)
	}
	return nil
}

func (r Ready) timeout() time.Duration {
	if r.Timeout == 0 {
		return DefaultTimeout
	}
	return r.Timeout
}
