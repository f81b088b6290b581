package unprivtest

import (
	"fmt"
	"strings"
)

// mostLines is how much of one test, or of a crash, is told.
const mostLines = 200

// outcome is what a run of tests printed, by test.
type outcome struct {
	passed, failed, skipped []string
	said                    map[string][]string
	crash                   []string // from the first line of a panic on
	all                     []string
}

// read takes apart what -test.v prints. Lines between two marks are of the test
// that the former names.
func read(out []byte) outcome {
	o, current := outcome{said: map[string][]string{}}, ""
	for line := range strings.Lines(string(out)) {
		line = strings.TrimRight(line, "\n")
		o.all = append(o.all, line)
		if name, ok := started(line); ok {
			current = name
		} else if len(o.crash) > 0 || strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "fatal error: ") {
			o.crash = append(o.crash, line)
		} else if !o.ended(line) {
			o.said[current] = append(o.said[current], line)
		}
	}
	return o
}

func started(line string) (name string, ok bool) {
	for _, mark := range []string{"=== RUN   ", "=== NAME  ", "=== CONT  ", "=== PAUSE "} {
		if name, ok := strings.CutPrefix(line, mark); ok {
			return name, true
		}
	}
	return "", false
}

// ended notes how a test ended, if the line tells that. Lines of subtests are
// indented.
func (o *outcome) ended(line string) bool {
	mark, rest, _ := strings.Cut(strings.TrimLeft(line, " "), ": ")
	name, _, _ := strings.Cut(rest, " ")
	switch mark {
	case "--- PASS":
		o.passed = append(o.passed, name)
	case "--- FAIL":
		o.failed = append(o.failed, name)
	case "--- SKIP":
		o.skipped = append(o.skipped, name)
	default:
		return false
	}
	return true
}

// failure is what those tests said that failed. The rest would only bury it.
func (o outcome) failure() string {
	if len(o.failed) == 0 && len(o.crash) == 0 {
		return fmt.Sprintf("no test failed, %d passed; the last lines:\n%s", len(o.passed), strings.Join(o.all[max(0, len(o.all)-mostLines):], "\n"))
	}
	var text strings.Builder
	for _, name := range o.failed {
		fmt.Fprintf(&text, "--- FAIL: %s\n", name)
		tell(&text, o.said[name])
	}
	tell(&text, o.crash)
	return text.String()
}

// tell leaves out the middle of what is too long: tests begin with the cause or
// end with it.
func tell(text *strings.Builder, lines []string) {
	if more := len(lines) - mostLines; more > 0 {
		tell(text, lines[:mostLines/2])
		fmt.Fprintf(text, "    ... %d lines ...\n", more)
		lines = lines[len(lines)-mostLines/2:]
	}
	for _, line := range lines {
		fmt.Fprintln(text, line)
	}
}

// skips gives each test that was skipped, with what it said last.
func (o outcome) skips() string {
	var text strings.Builder
	for _, name := range o.skipped {
		reason := ""
		if said := o.said[name]; len(said) > 0 {
			reason = strings.TrimSpace(said[len(said)-1])
		}
		fmt.Fprintf(&text, "%s: %s\n", name, reason)
	}
	return text.String()
}
