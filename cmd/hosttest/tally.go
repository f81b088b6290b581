package main

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// tally counts the tests of a step. A test with subtests is not counted beside
// them, unless it failed on its own account.
type tally struct {
	Passed   int            `json:"passed"`
	Failed   int            `json:"failed"`
	Skipped  int            `json:"skipped"`
	Failures []string       `json:"failures,omitempty"` // names
	Skips    map[string]int `json:"skips,omitempty"`    // how often for each reason
}

func (t *tally) negative() bool {
	return t != nil && (t.Passed < 0 || t.Failed < 0 || t.Skipped < 0)
}

// String is the numbers, without those that are zero.
func (t *tally) String() string {
	if t == nil {
		return ""
	}
	text := fmt.Sprintf("%d passed", t.Passed)
	if t.Failed > 0 {
		text += fmt.Sprintf(", %d failed", t.Failed)
	}
	if t.Skipped > 0 {
		text += fmt.Sprintf(", %d skipped", t.Skipped)
	}
	return text
}

// join adds another count to this one.
func (t *tally) join(other tally) {
	t.Passed += other.Passed
	t.Failed += other.Failed
	t.Skipped += other.Skipped
	t.Failures = append(t.Failures, other.Failures...)
	for reason, count := range other.Skips {
		if t.Skips == nil {
			t.Skips = map[string]int{}
		}
		t.Skips[reason] += count
	}
}

// reader takes apart what -test.v prints.
type reader struct {
	ended   map[string]string // test: how
	said    map[string][]string
	current string
	crash   []string // from a panic on
}

// readTests gives the count and what failed tests said.
func readTests(output io.Reader) (tally, []string) {
	r := reader{ended: map[string]string{}, said: map[string][]string{}}
	in := bufio.NewReader(output)
	for {
		line, err := in.ReadString('\n')
		if line != "" {
			r.take(strings.TrimRight(line, "\r\n"))
		}
		if err != nil {
			return r.count(), r.failure()
		}
	}
}

func (r *reader) take(line string) {
	for _, mark := range []string{"=== RUN   ", "=== NAME  ", "=== CONT  ", "=== PAUSE "} {
		if name, ok := strings.CutPrefix(line, mark); ok {
			r.current = name
			return
		}
	}
	mark, rest, _ := strings.Cut(strings.TrimLeft(line, " "), ": ")
	name, _, _ := strings.Cut(rest, " ")
	switch {
	case mark == "--- PASS" || mark == "--- FAIL" || mark == "--- SKIP":
		r.ended[name] = strings.TrimPrefix(mark, "--- ")
	case len(r.crash) > 0 || strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "fatal error: "):
		r.crash = append(r.crash, line)
	default:
		r.said[r.current] = append(r.said[r.current], line)
	}
}

func (r *reader) count() tally {
	var t tally
	for _, name := range slices.Sorted(maps.Keys(r.ended)) {
		switch how := r.ended[name]; {
		case how == "FAIL" && !r.below(name, "FAIL"):
			t.Failed++
			t.Failures = append(t.Failures, name)
		case how == "FAIL" || r.below(name, ""):
		case how == "SKIP":
			t.Skipped++
			t.join(tally{Skips: map[string]int{r.reason(name): 1}})
		default:
			t.Passed++
		}
	}
	return t
}

// below says whether a test has subtests that ended so; empty is any end.
func (r *reader) below(name, how string) bool {
	for other, end := range r.ended {
		if strings.HasPrefix(other, name+"/") && (how == "" || how == end) {
			return true
		}
	}
	return false
}

// reason is what a skipped test said last, without where it stands.
func (r *reader) reason(name string) string {
	said := r.said[name]
	if len(said) == 0 {
		return "no reason given"
	}
	last := strings.TrimSpace(said[len(said)-1])
	if place, text, ok := strings.Cut(last, ": "); ok && strings.Contains(place, ".go:") {
		last = text
	}
	return last
}

// failure is what tests said that failed, and a crash.
func (r *reader) failure() (lines []string) {
	for _, name := range slices.Sorted(maps.Keys(r.ended)) {
		if r.ended[name] == "FAIL" {
			lines = append(append(lines, "--- FAIL: "+name), r.said[name]...)
		}
	}
	return append(lines, r.crash...)
}
