package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// verdict begins the line by which the lab's init says how the tests ended.
const verdict = "kvmtest: the tests ended with code "

// reported begins the line by which a test that measures gives its report, as JSON.
const reported = "kvmtest: report "

// beat is what the lab's init writes to the console every beatEvery of the lab's clock, so
// that a lab whose tests have long nothing to say is told from one that stands still. It is
// no part of a line, and neither is mark, with which tests begin what they say of themselves.
const (
	beat      = 0
	beatEvery = 10 * time.Second
	mark      = 0x16
)

// result is how the tests of a part ended, as the console told.
type result struct {
	code                    int
	found                   bool // the verdict was
	passed, failed, skipped int
	ended                   []string // the names of these
	suiteSkipped            bool
	boots                   int
	report                  string
}

func (r result) String() string {
	text := fmt.Sprintf("code %d: %d passed, %d failed, %d skipped", r.code, r.passed, r.failed, r.skipped)
	if r.boots > 1 {
		text += fmt.Sprintf(", in %d boots", r.boots)
	}
	return text
}

// then is the result with that of one more boot, which has run what was left.
func (r result) then(next result) result {
	next.passed += r.passed
	next.failed += r.failed
	next.skipped += r.skipped
	next.ended = slices.Concat(r.ended, next.ended)
	next.boots = r.boots + 1
	if next.code == 0 && next.failed > 0 {
		next.code = 1
	}
	return next
}

// follow copies the console line by line, calls heard whenever it says something, and takes
// from it how the tests ended.
func follow(console io.Reader, to io.Writer, heard func()) (r result) {
	scan := bufio.NewScanner(&listener{console, heard})
	scan.Buffer(nil, 1<<20)
	for scan.Scan() {
		line := strings.TrimRight(scan.Text(), "\r")
		if report, is := strings.CutPrefix(line, reported); is {
			r.report = report
		} else {
			fmt.Fprintln(to, line)
		}
		r.note(strings.TrimSpace(line))
	}
	return r
}

// listener reads a console without beats and marks.
type listener struct {
	console io.Reader
	heard   func()
}

func (l *listener) Read(p []byte) (int, error) {
	for {
		n, err := l.console.Read(p)
		if n > 0 {
			l.heard()
		}
		// A reader that gives nothing too often is taken for one that is broken.
		if n = len(slices.DeleteFunc(p[:n], func(b byte) bool { return b == beat || b == mark })); n > 0 || err != nil {
			return n, err
		}
	}
}

func (r *result) note(line string) {
	if rest, is := strings.CutPrefix(line, verdict); is {
		number, err := strconv.Atoi(rest)
		r.code, r.found = number, err == nil
		return
	}
	rest, is := strings.CutPrefix(line, "--- ")
	how, rest, named := strings.Cut(rest, ": ")
	if !is || !named {
		return
	}
	name, _, _ := strings.Cut(rest, " ")
	switch how {
	case "PASS":
		r.passed++
	case "FAIL":
		r.failed++
	case "SKIP":
		r.skipped++
		r.suiteSkipped = r.suiteSkipped || name == suiteName || name == wholeTest // which the lab is there to run
	default:
		return
	}
	r.ended = append(r.ended, name)
}

// keep writes the report to a file, whose name it has only as a whole.
func (r result) keep(name string) error {
	var indented bytes.Buffer
	if err := json.Indent(&indented, []byte(r.report), "", " "); err != nil {
		return fmt.Errorf("its report: %w", err)
	}
	indented.WriteByte('\n')
	if err := os.WriteFile(name+".new", indented.Bytes(), 0o644); err != nil {
		return err
	}
	return os.Rename(name+".new", name)
}
