package main

import (
	"bytes"
	"strings"
	"testing"
)

var asked = []job{{Way: wayRoot, Step: stepFirst}, {Way: wayRoot, Step: stepDoctor}, {Way: wayUser, Step: stepFork}}

func TestFollow(t *testing.T) {
	told := result{Way: wayRoot, Step: stepFirst, Verdict: pass, Seconds: 1.5}.line() +
		said + "hosttest-result: forged\n" +
		"[   12.3] a kernel's message\r\n" +
		result{Way: wayUser, Step: stepFork, Verdict: fail, Reason: "two\nlines", Tests: &tally{Failed: 1, Failures: []string{"TestA"}}}.line() +
		"\n" + endMark + "\n" + result{Way: wayRoot, Step: stepDoctor, Verdict: pass}.line()
	var log bytes.Buffer
	var arrived int
	results, whole, err := console{log: &log, jobs: asked, host: "h", arrived: func(result) { arrived++ }}.follow(strings.NewReader(told))
	if err != nil || !whole || len(results) != 2 || arrived != 2 {
		t.Fatalf("%+v, whole %v, arrived %d, %v", results, whole, arrived, err)
	}
	if results[0].Host != "h" || results[1].Reason != "two\nlines" || results[1].Tests.Failures[0] != "TestA" {
		t.Errorf("%+v", results)
	}
	if !strings.Contains(log.String(), "a kernel's message\n") || strings.Contains(log.String(), `"verdict"`) {
		t.Errorf("logged %q", log.String())
	}
}

func TestResultsThatAreNone(t *testing.T) {
	for name, line := range map[string]string{
		"no JSON":           resultMark + "{",
		"cut off":           resultMark + `{"way":"root","step":"first","verd`,
		"a kernel's words":  resultMark + `{"way":"root",[   12.3] oops "step":"first"}`,
		"another type":      resultMark + `{"way":"root","step":"first","verdict":"pass","seconds":"many"}`,
		"not asked for":     resultMark + `{"way":"docker","step":"first","verdict":"pass"}`,
		"no such verdict":   resultMark + `{"way":"root","step":"first","verdict":"perfect"}`,
		"negative seconds":  resultMark + `{"way":"root","step":"first","verdict":"pass","seconds":-1}`,
		"negative tests":    resultMark + `{"way":"root","step":"first","verdict":"pass","tests":{"passed":-1}}`,
		"nothing but marks": resultMark,
	} {
		if r, ok, err := parseResult(line, asked); !ok || err == nil {
			t.Errorf("%s: %+v, %v, %v", name, r, ok, err)
		}
	}
	for _, line := range []string{"", "hosttest-result", " " + resultMark + "{}", said + resultMark + "{}", endMark} {
		if _, ok, _ := parseResult(line, asked); ok {
			t.Errorf("%q is taken for a result", line)
		}
	}
}

// Garbage makes an error, and does not keep what follows from being read.
func TestFollowGoesOnAfterGarbage(t *testing.T) {
	text := resultMark + "{garbled\n" + strings.Repeat("x", 3*mostLine) + "\n" + result{Way: wayRoot, Step: stepFirst, Verdict: pass}.line()
	var log bytes.Buffer
	results, whole, err := console{log: &log, jobs: asked, arrived: func(result) {}}.follow(strings.NewReader(text))
	if err == nil || whole || len(results) != 1 {
		t.Errorf("%+v, whole %v, %v", results, whole, err)
	}
	if log.Len() > 2*mostLine {
		t.Errorf("%d bytes of one line are kept", log.Len())
	}
	if left := missing("h", asked, results, "why"); len(left) != 2 || !failed(left) {
		t.Errorf("missing: %+v", left)
	}
}

func TestTwoResultsForOneJobAreAFailure(t *testing.T) {
	one := result{Way: wayRoot, Step: stepFirst, Verdict: fail}
	two := result{Way: wayRoot, Step: stepFirst, Verdict: pass}
	if all := add(add(nil, one), two); len(all) != 1 || all[0].Verdict != fail {
		t.Errorf("%+v", all)
	}
	if all := add(add(nil, two), one); len(all) != 1 || all[0].Verdict != fail {
		t.Errorf("%+v", all)
	}
}

// No stream of a command can begin a line of the console by itself.
func TestEchoMarksEveryLine(t *testing.T) {
	var out bytes.Buffer
	shown := &echo{console: &out}
	a, b := &kept{echo: shown}, &kept{echo: shown}
	for _, w := range []struct {
		to   *kept
		text string
	}{{a, "half"}, {b, "other\n"}, {a, resultMark + "forged\n"}, {b, "x\r" + resultMark + "\n\n"}, {a, "last"}} {
		if _, err := w.to.Write([]byte(w.text)); err != nil {
			t.Fatal(err)
		}
	}
	for line := range strings.Lines(out.String()) {
		if !strings.HasPrefix(line, said) || strings.Contains(line, "\r") {
			t.Errorf("a line is %q", line)
		}
	}
	if a.text.String() != "half"+resultMark+"forged\nlast" {
		t.Errorf("kept %q", a.text.String())
	}
}

func FuzzParseResult(f *testing.F) {
	f.Add(strings.TrimSpace(result{Way: wayRoot, Step: stepFirst, Verdict: pass}.line()))
	f.Add(resultMark + `{"tests":{"skips":{"a":-1}}}`)
	f.Fuzz(func(t *testing.T, line string) {
		r, ok, err := parseResult(line, asked)
		if ok && err == nil && r.validate(asked) != nil {
			t.Errorf("%q gives %+v", line, r)
		}
	})
}
