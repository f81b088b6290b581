package cli

import (
	"strings"
	"testing"
	"time"

	"aether/engine"
)

// at is so many milliseconds into a day.
func at(ms int) time.Time {
	return time.Date(2026, 1, 1, 0, 0, 0, ms*int(time.Millisecond), time.UTC)
}

// forked is a node that lived from one time to another, or lives if until is 0.
func forked(id, parent string, from, until int) engine.Node {
	n := engine.Node{ID: id, Parent: parent, Template: "t", Born: at(from), Took: time.Duration(from) * time.Millisecond, Batch: 1}
	if until > 0 {
		end := at(until)
		n.Ended = &end
	}
	return n
}

func TestTreeLines(t *testing.T) {
	for name, c := range map[string]struct {
		nodes []engine.Node
		want  string
	}{
		"a template alone": {[]engine.Node{forked("root", "", 7, 0)}, "root  template t, prepared in 7.0 ms"},
		"three generations": {[]engine.Node{forked("root", "", 1, 0), forked("a", "root", 2, 9), forked("b", "root", 3, 0), forked("c", "a", 4, 0), forked("d", "c", 5, 6)}, `
root  template t, prepared in 1.0 ms
├─ a  forked in 2.0 ms, lived for 7.0 ms
│  └─ c  forked in 4.0 ms, lives
│     └─ d  forked in 5.0 ms, lived for 1.0 ms
└─ b  forked in 3.0 ms, lives`},
		"many that have ended": {[]engine.Node{forked("root", "", 1, 0), forked("a", "root", 2, 20), forked("b", "root", 3, 20), forked("c", "root", 4, 20),
			forked("d", "root", 5, 20), forked("e", "root", 6, 20), forked("f", "root", 7, 20), forked("g", "root", 8, 20)}, `
root  template t, prepared in 1.0 ms
├─ 2 forks before, each in 2.0 ms to 3.0 ms, half of them within 2.0 ms
├─ c  forked in 4.0 ms, lived for 16.0 ms
├─ d  forked in 5.0 ms, lived for 15.0 ms
├─ e  forked in 6.0 ms, lived for 14.0 ms
├─ f  forked in 7.0 ms, lived for 13.0 ms
└─ g  forked in 8.0 ms, lived for 12.0 ms`},
	} {
		if got := strings.Join(treeLines(c.nodes), "\n"); got != strings.TrimPrefix(c.want, "\n") {
			t.Errorf("%s:\n%s", name, got)
		}
	}
}

func TestTemplateTexts(t *testing.T) {
	long := engine.TemplateInfo{Recipe: engine.Recipe{Command: []string{"sh", "-c", "echo\n" + strings.Repeat("é", 60)}}}
	if got := residentText(long); len(got) > 44 || strings.Contains(got, "\n") || strings.Contains(got, "\ufffd") {
		t.Errorf("%q", got)
	}
	if got := asciiOnly("a\x1b[31mé\n"); got != "a?[31m???" {
		t.Errorf("%q", got)
	}
	for d, want := range map[time.Duration]string{1500 * time.Microsecond: "1.5 ms", 2 * time.Second: "2000.0 ms", 75 * time.Second: "1m15s"} {
		if got := milliseconds(d); got != want {
			t.Errorf("%v is %s", d, got)
		}
	}
}

// The commands of a template work without any driver up to the point where one is
// needed.
func TestTemplateCommandsHelp(t *testing.T) {
	for _, args := range []string{"template --help", "template prepare --help", "template list --help", "template show --help", "template rm --help", "template promote --help", "template tag --help", "pool --help", "pool set --help", "pool list --help", "bench --help", "bench fork --help", "bench scale --help"} {
		if out := succeed(t, strings.Fields(args)...); !strings.Contains(out, "Examples:\n  ") {
			t.Errorf("%s has no examples:\n%s", args, out)
		}
	}
}
