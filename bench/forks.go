package main

import "aether/bench/fork"

// forks are the figures of forks, or why there are none.
type forks struct {
	*fork.Report
	Skipped string `json:"skipped,omitempty"`
}

func (f *forks) text() string {
	switch {
	case f == nil:
		return ""
	case f.Report == nil:
		return "Forks are skipped: " + f.Skipped + "\n"
	}
	return f.Report.Text()
}
