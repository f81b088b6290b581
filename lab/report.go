package lab

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"
)

// Subject is something that is measured in a run, by the name that its findings
// have in JSON.
type Subject struct {
	Key     string
	Measure func(context.Context, *Progress) (Findings, error)
}

// Findings are what a subject found out: a value for JSON, and a text for people.
type Findings interface{ Text() string }

// Report is everything that a run found out.
type Report struct {
	Host        Host
	Rounds      int
	TookSeconds float64
	sections    []section
}

type section struct {
	key string
	Findings
}

// Run measures one subject after the other.
func Run(ctx context.Context, rounds int, subjects []Subject, progress io.Writer) (r Report, err error) {
	r.Rounds = rounds
	if r.Host, err = ReadHost(); err != nil {
		return r, err
	}
	say := NewProgress(progress)
	for _, s := range subjects {
		found, err := s.Measure(ctx, say)
		if err != nil {
			return r, fmt.Errorf("%s: %w", s.Key, err)
		}
		r.sections = append(r.sections, section{s.Key, found})
	}
	r.TookSeconds = time.Since(say.start).Seconds()
	r.Host.LoadAfter, err = Load()
	return r, err
}

// Text draws the report for people.
func (r Report) Text() string {
	h := r.Host
	var b strings.Builder
	fmt.Fprintf(&b, "Linux %s %s, %d cores, %d MiB, as %s, load %.2f before and %.2f after\n",
		h.Kernel, h.Arch, h.Cores, h.MemoryMiB, h.User, h.LoadBefore, h.LoadAfter)
	fmt.Fprintf(&b, "%d interleaved rounds, %v in all\n", r.Rounds, time.Duration(r.TookSeconds*float64(time.Second)).Round(time.Second))
	for _, s := range r.sections {
		b.WriteString("\n" + s.Text())
	}
	return b.String()
}

// MarshalJSON implements json.Marshaler.
func (r Report) MarshalJSON() ([]byte, error) {
	all := map[string]any{"host": r.Host, "rounds": r.Rounds, "took_seconds": r.TookSeconds}
	for _, s := range r.sections {
		all[s.key] = s.Findings
	}
	return json.Marshal(all)
}

// Skipped are the findings of a subject that cannot be measured here.
type Skipped struct {
	What   string `json:"-"`
	Reason string `json:"skipped"`
}

// Text implements Findings.
func (s Skipped) Text() string { return s.What + " are skipped: " + s.Reason + "\n" }

// Progress tells somebody who waits what is being measured.
type Progress struct {
	to          io.Writer
	start, last time.Time
}

// NewProgress writes to a terminal, or wherever; nobody is told if it is nil.
func NewProgress(to io.Writer) *Progress {
	if to == nil {
		to = io.Discard
	}
	return &Progress{to: to, start: time.Now()}
}

// tickTime is how long somebody may wait for a word.
const tickTime = 2 * time.Second

// Tick writes a line if none was written for a while.
func (p *Progress) Tick(format string, args ...any) {
	if time.Since(p.last) > tickTime {
		p.Say(format, args...)
	}
}

// Say writes a line.
func (p *Progress) Say(format string, args ...any) {
	p.last = time.Now()
	fmt.Fprintf(p.to, "%4.0fs  %s\n", time.Since(p.start).Seconds(), fmt.Sprintf(format, args...))
}
