package cli

import (
	"encoding/base64"
	"time"
	"unicode/utf8"

	"aether/guest"
	"aether/sandbox"
)

// maxCapture bounds the output that a JSON answer holds of each stream.
const maxCapture = 1 << 20

// capture keeps the beginning of a stream.
type capture struct {
	bytes     []byte
	truncated bool
}

func (c *capture) Write(p []byte) (int, error) {
	room := maxCapture - len(c.bytes)
	c.bytes = append(c.bytes, p[:min(len(p), room)]...)
	c.truncated = c.truncated || len(p) > room
	return len(p), nil
}

// stream is a captured stream in the JSON answer: text, or base64 where the
// bytes are no text.
type stream struct {
	Text      string `json:"text,omitempty"`
	Base64    string `json:"base64,omitempty"`
	Truncated bool   `json:"truncated,omitempty"`
}

func (c *capture) stream() stream {
	if utf8.Valid(c.bytes) {
		return stream{Text: string(c.bytes), Truncated: c.truncated}
	}
	return stream{Base64: base64.StdEncoding.EncodeToString(c.bytes), Truncated: c.truncated}
}

// runResult is the JSON answer of run.
type runResult struct {
	Sandbox  string           `json:"sandbox"`
	Driver   string           `json:"driver"`
	Boundary sandbox.Boundary `json:"boundary"`

	Exit        int    `json:"exit"`
	Signal      string `json:"signal,omitempty"`
	TimedOut    bool   `json:"timed_out,omitempty"`
	OutOfMemory bool   `json:"out_of_memory,omitempty"`
	// LimitsReached are memory, processes or disk.
	LimitsReached []string `json:"limits_reached,omitempty"`

	Times           runTimes `json:"times"`
	PeakMemoryBytes *int64   `json:"peak_memory_bytes,omitempty"`
	Stdout          stream   `json:"stdout"`
	Stderr          stream   `json:"stderr"`

	// Denied is what the network denied, and DenialsMissed how many decisions about it are
	// not known, with --net ask.
	Denied        []denial `json:"denied,omitempty"`
	DenialsMissed int64    `json:"decisions_missed,omitempty"`
}

// runTimes are in milliseconds since the beginning of the command line's work.
type runTimes struct {
	Created   float64  `json:"created_ms"`
	FirstByte *float64 `json:"first_byte_ms,omitempty"`
	Exit      float64  `json:"exit_ms"`
}

// print completes the answer and prints it.
func (s *session) print(r runResult, status guest.Status, code int, timeout bool, ended time.Time) error {
	info := s.driver.Info()
	r.Sandbox, r.Driver, r.Boundary = s.instance.ID(), info.Name, info.Boundary
	r.Exit, r.TimedOut, r.OutOfMemory = code, timeout, status.OutOfMemory
	r.Times = runTimes{Created: s.since(s.created), Exit: s.since(ended)}
	r.Stdout, r.Stderr = s.streams.out.stream(), s.streams.err.stream()
	if status.Signal != 0 {
		r.Signal = status.Signal.String()
	}
	if at := s.streams.first.at; !at.IsZero() {
		ms := s.since(at)
		r.Times.FirstByte = &ms
	}
	stats, err := s.instance.Stats(s.cmd.Context())
	if err != nil {
		return err
	}
	r.PeakMemoryBytes, r.LimitsReached = stats.MemoryPeakBytes, stats.Reached()
	if err := printJSON(s.cmd, r); err != nil {
		return err
	}
	if code != 0 {
		return exitCode(code)
	}
	return nil
}

func (s *session) since(t time.Time) float64 {
	return float64(t.Sub(s.start).Microseconds()) / 1000
}
