package interpreter

import (
	"time"

	"aether/sandbox"
)

// Options are how an interpreter is started. The zero value works. The user is
// that of the client (guest.ClientOptions.User).
type Options struct {
	// WorkDir is where it starts; empty means the sandbox's default.
	WorkDir string
	// Env is added to the environment that every command of the sandbox has.
	Env map[string]string
	// Tag is what the guest service calls the process besides its number, if it is not empty.
	Tag    string
	Limits Limits
	// Grace is how long an interrupted call may take to end before the interpreter
	// is killed; zero means DefaultGrace.
	Grace time.Duration
}

// DefaultGrace lets a program clean up after itself.
const DefaultGrace = 2 * time.Second

// Limits bound what one call keeps of what the sandbox sends. A zero field is its
// default. What does not fit is dropped, and the Result says so.
type Limits struct {
	// OutputBytes of each stream are kept in the Result; writers get everything.
	// Default 1 MiB.
	OutputBytes int
	// TextBytes is where the interpreter cuts the text of one value. Default 256 KiB.
	TextBytes int
	// ValueBytes bounds one value in all its forms. Default 16 MiB.
	ValueBytes int
	// TotalBytes bounds all values of a call. Default 64 MiB.
	TotalBytes int
	// Values bounds their number. Default 256.
	Values int
}

func (l Limits) withDefaults() Limits {
	for _, field := range []struct {
		to    *int
		value int
	}{{&l.OutputBytes, 1 << 20}, {&l.TextBytes, 256 << 10}, {&l.ValueBytes, 16 << 20}, {&l.TotalBytes, 64 << 20}, {&l.Values, 256}} {
		if *field.to == 0 {
			*field.to = field.value
		}
	}
	return l
}

func (o Options) validate() error {
	l := o.Limits
	for _, field := range []struct {
		name  string
		value int
	}{{"output_bytes", l.OutputBytes}, {"text_bytes", l.TextBytes}, {"value_bytes", l.ValueBytes}, {"total_bytes", l.TotalBytes}, {"values", l.Values}} {
		if field.value < 0 {
			return sandbox.Invalidf("limits."+field.name, "%d is negative", field.value)
		}
	}
	if o.Grace < 0 {
		return sandbox.Invalidf("grace", "%v is negative", o.Grace)
	}
	return nil
}

func (o Options) grace() time.Duration {
	if o.Grace == 0 {
		return DefaultGrace
	}
	return o.Grace
}
