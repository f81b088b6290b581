package agent

import (
	"time"
)

// Tree is what a transcript tells of a run.
type Tree struct {
	Start
	Began time.Time `json:"began"`
	// Outcome is nil while the run goes on, and of one that was killed.
	Outcome *Outcome `json:"outcome,omitempty"`
	Main    *Line    `json:"main"`
}

// Line is what one line of a run did, took and scored.
type Line struct {
	Name    string  `json:"name"`
	Sandbox string  `json:"sandbox,omitempty"`
	Steps   int     `json:"steps"`
	Calls   []Made  `json:"calls"`
	Tokens  Tokens  `json:"tokens"`
	TookMS  float64 `json:"took_ms"`
	// ForkMS is how long its forks took to be made.
	ForkMS    float64 `json:"fork_ms,omitempty"`
	RollBacks int     `json:"rollbacks,omitempty"`
	Score     *Score  `json:"score,omitempty"`
	// Fate is "kept" or "dropped" for a fork that was chosen or not.
	Fate  Kind    `json:"fate,omitempty"`
	Why   string  `json:"why,omitempty"`
	Forks []*Line `json:"forks,omitempty"`

	began time.Time
}

// Made is a call that was made.
type Made struct {
	Tool   string  `json:"tool"`
	Failed bool    `json:"failed,omitempty"`
	TookMS float64 `json:"took_ms"`
}

// NewTree reads what a run did from its transcript. Errors: Invalid for what is none.
func NewTree(entries []Entry) (*Tree, error) {
	if err := checkStart(entries); err != nil {
		return nil, err
	}
	first := entries[0]
	t := &Tree{Start: *first.Run, Began: first.Time, Main: &Line{Name: mainLine, Calls: []Made{}, began: first.Time}}
	lines := map[string]*Line{mainLine: t.Main}
	for _, e := range entries[1:] {
		if e.Kind == Ended {
			t.Outcome = e.Outcome
			continue
		}
		if l := lines[e.Line]; l != nil {
			l.add(e, lines)
		}
	}
	return t, nil
}

// add has a line know of an entry about it.
func (l *Line) add(e Entry, lines map[string]*Line) {
	switch e.Kind {
	case Opened:
		if len(e.Sandboxes) == 1 {
			l.Sandbox = e.Sandboxes[0]
		}
	case Replied:
		l.Steps++
		if e.Reply != nil {
			l.Tokens = l.Tokens.plus(e.Reply.Tokens)
		}
	case Called:
		if e.Call != nil {
			l.Calls = append(l.Calls, Made{e.Call.Name, e.Failed, e.TookMS})
		}
	case RolledBack:
		l.RollBacks++
	case Scored:
		l.Score = e.Score
	case Forked:
		l.ForkMS += e.TookMS
		for i, name := range e.Lines {
			f := &Line{Name: name, Calls: []Made{}, began: e.Time}
			if i < len(e.Sandboxes) {
				f.Sandbox = e.Sandboxes[i]
			}
			if lines[name] == nil { // which no run names twice
				lines[name], l.Forks = f, append(l.Forks, f)
			}
		}
	case Kept, Dropped:
		l.Fate, l.Why = e.Kind, e.Why
		return
	}
	l.TookMS = float64(e.Time.Sub(l.began).Microseconds()) / 1000
}
