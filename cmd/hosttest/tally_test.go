package main

import (
	"slices"
	"strings"
	"testing"
)

const verbose = `=== RUN   TestPlain
--- PASS: TestPlain (0.00s)
=== RUN   TestWithParts
=== RUN   TestWithParts/one
=== RUN   TestWithParts/two
    parts_test.go:7: this host has none: of them
=== NAME  TestWithParts/one
    parts_test.go:9: broken
--- FAIL: TestWithParts (0.01s)
    --- FAIL: TestWithParts/one (0.00s)
    --- SKIP: TestWithParts/two (0.00s)
=== RUN   TestMute
--- SKIP: TestMute (0.00s)
=== RUN   TestOnlyItself
    own_test.go:3: after its parts
=== RUN   TestOnlyItself/fine
--- FAIL: TestOnlyItself (0.00s)
    --- PASS: TestOnlyItself/fine (0.00s)
FAIL
`

func TestReadTests(t *testing.T) {
	got, failures := readTests(strings.NewReader(verbose))
	if got.Passed != 2 || got.Failed != 2 || got.Skipped != 2 {
		t.Errorf("%s", &got)
	}
	if want := []string{"TestOnlyItself", "TestWithParts/one"}; !slices.Equal(got.Failures, want) {
		t.Errorf("failures %q, want %q", got.Failures, want)
	}
	if got.Skips["this host has none: of them"] != 1 || got.Skips["no reason given"] != 1 {
		t.Errorf("skips %v", got.Skips)
	}
	if text := strings.Join(failures, "\n"); !strings.Contains(text, "broken") || strings.Contains(text, "this host has none") {
		t.Errorf("told %q", text)
	}
}

func TestReadTestsOfACrash(t *testing.T) {
	got, failures := readTests(strings.NewReader("=== RUN   TestA\npanic: test timed out after 1s\n\trunning tests:\n\t\tTestA (1s)\n"))
	if got.Passed+got.Failed != 0 || len(failures) != 3 || !strings.HasPrefix(failures[0], "panic: ") {
		t.Errorf("%s, %q", &got, failures)
	}
}

func TestTallyJoins(t *testing.T) {
	var sum tally
	sum.join(tally{Passed: 1, Skips: map[string]int{"a": 1}})
	sum.join(tally{Failed: 2, Skipped: 1, Failures: []string{"x", "y"}, Skips: map[string]int{"a": 1}})
	if sum.String() != "1 passed, 2 failed, 1 skipped" || sum.Skips["a"] != 2 || len(sum.Failures) != 2 {
		t.Errorf("%s %+v", &sum, sum)
	}
}
