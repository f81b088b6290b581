package main

import (
	"encoding/json"
	"strings"
	"testing"
)

var found = []result{
	{Host: "h", Way: wayUser, Step: stepFork, Verdict: fail, Reason: "a | b\nc", Seconds: 2, Tests: &tally{Passed: 3, Failed: 1, Failures: []string{"TestX"}}, Output: "why it failed"},
	{Host: "h", Way: wayRoot, Step: stepDoctor, Verdict: refused, Reason: "not here (do this)"},
	{Host: "h", Way: wayRoot, Step: stepFirst, Verdict: pass, Seconds: 1},
}

func TestMarkdown(t *testing.T) {
	results := append([]result(nil), found...)
	inOrder(results)
	var out strings.Builder
	if err := writeMarkdown(&out, results); err != nil {
		t.Fatal(err)
	}
	want := "| h | root | pass | refused | not run | not run | not run | not run | not run | not run | not run | not run |  | not run |\n" +
		"| h | user | not run | not run | not run | not run | not run | not run | not run | not run | fail: 3 passed, 1 failed | not run |  | not run |\n"
	if out.String() != want {
		t.Errorf("got\n%swant\n%s", out.String(), want)
	}
}

func TestTable(t *testing.T) {
	var out strings.Builder
	if err := writeTable(&out, found); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"3 passed, 1 failed; a | b c; TestX\n", "why it failed\n", "not here (do this)", "1 passed, 1 refused as expected, 0 skipped, 1 failed\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in\n%s", want, out.String())
		}
	}
}

func TestJSON(t *testing.T) {
	var out strings.Builder
	if err := writeJSON(&out, found); err != nil {
		t.Fatal(err)
	}
	var back []result
	if err := json.Unmarshal([]byte(out.String()), &back); err != nil || len(back) != 3 || back[0].Tests.Failed != 1 {
		t.Errorf("%+v, %v", back, err)
	}
}

func TestRemedyOptions(t *testing.T) {
	for refusal, want := range map[string]string{
		"aether: no (in a container: docker run --security-opt seccomp=unconfined --cap-add SYS_ADMIN ...)": "--security-opt seccomp=unconfined --cap-add SYS_ADMIN",
		"aether: no (docker run --privileged), or so":                                                       "--privileged",
		"aether: no (run as root)": "",
	} {
		if got := strings.Join(remedyOptions(refusal), " "); got != want {
			t.Errorf("%q: %q, want %q", refusal, got, want)
		}
	}
}
