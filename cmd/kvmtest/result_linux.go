package main

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// verdict begins the line by which the lab's init says how the tests ended.
const verdict = "kvmtest: the tests ended with code "

// result is how the tests of one boot ended, as the console told.
type result struct {
	code                    int
	found                   bool // the verdict was
	passed, failed, skipped int
	suiteSkipped            bool
	again                   bool // the first boot stood still
}

func (r result) String() string {
	text := fmt.Sprintf("code %d: %d passed, %d failed, %d skipped", r.code, r.passed, r.failed, r.skipped)
	if r.again {
		text += ", at the second boot"
	}
	return text
}

// follow copies the console line by line, calls heard for each, and takes from it how
// the tests ended.
func follow(console io.Reader, to io.Writer, heard func()) (r result) {
	scan := bufio.NewScanner(console)
	scan.Buffer(nil, 1<<20)
	for scan.Scan() {
		line := strings.TrimRight(scan.Text(), "\r")
		fmt.Fprintln(to, line)
		r.note(strings.TrimSpace(line))
		heard()
	}
	return r
}

func (r *result) note(line string) {
	switch {
	case strings.HasPrefix(line, "--- PASS: "):
		r.passed++
	case strings.HasPrefix(line, "--- FAIL: "):
		r.failed++
	case strings.HasPrefix(line, "--- SKIP: "):
		r.skipped++
		r.suiteSkipped = r.suiteSkipped || strings.HasPrefix(line, "--- SKIP: "+suiteName+" ")
	case strings.HasPrefix(line, verdict):
		number, err := strconv.Atoi(strings.TrimPrefix(line, verdict))
		r.code, r.found = number, err == nil
	}
}
