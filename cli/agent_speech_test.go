package cli

import (
	"strings"
	"testing"

	"aether/agent"
)

// TestSpeech: one line is heard as it speaks, the others when their turns are over; nothing of
// the terminal's can be said.
func TestSpeech(t *testing.T) {
	var shown strings.Builder
	s := newSpeech(&shown)
	tell := func(e agent.Entry) string {
		if e.Kind == agent.Called {
			return e.Line + " called"
		}
		return ""
	}
	event := func(kind agent.Kind, line string) { s.watch(agent.Entry{Kind: kind, Line: line}, tell) }
	expect := func(want string) {
		t.Helper()
		if shown.String() != want {
			t.Errorf("shown is %q, not %q", shown.String(), want)
		}
		shown.Reset()
	}
	s.hear("main", "I loo")
	s.hear("main", "k.\n\x1b[2J")
	expect("main: I look.\n\\x1b[2J")
	event(agent.Replied, "main")
	event(agent.Called, "main")
	expect("\nmain called\n")
	s.hear("1", "one ")
	s.hear("2", "two")
	event(agent.Replied, "2")
	event(agent.Called, "2")
	s.hear("3", "three")
	s.hear("1", "more")
	expect("1: one more")
	event(agent.Replied, "1")
	expect("\n2: two\n2 called\n")
	s.hear("3", "!") // which has begun while another spoke, and is shown whole
	expect("")
	event(agent.Replied, "3")
	expect("3: three!\n")
	if s.close("three!") {
		t.Error("what waited was shown as it came")
	}
	s.hear("1", "Done.")
	event(agent.Replied, "1")
	if !s.close("Done.") || s.close("Other.") {
		t.Error("it is not known what was shown last")
	}
	expect("1: Done.\n")
	s.hear("1", "cut")
	if s.close("cut") {
		t.Error("a turn that was cut is taken for a whole one")
	}
	expect("1: cut\n")
}
