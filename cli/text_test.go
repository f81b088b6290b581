package cli

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	"aether/driver/all"
	"aether/profile"
)

func TestRankFitsTheWidth(t *testing.T) {
	// 70 is what the narrowest layout needs with weights.
	everything := ranking{profiles: profile.Rank(profile.Profiles()), driven: drivenBy(newDrivers(all.Makers()).Names())}
	weighted := everything
	weighted.weights = profile.Weights{profile.Isolation: 3}
	for _, width := range []int{70, 80, 100, 120, 200} {
		for name, r := range map[string]ranking{"plain": everything, "weighted": weighted} {
			drawn := r.table(width).render(screen{})
			for line := range strings.Lines(drawn) {
				if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > width {
					t.Errorf("%s in %d columns has a line of %d", name, width, n)
				}
			}
			if name == "plain" && width <= 100 {
				golden(t, fmt.Sprintf("rank-%d.txt", width), drawn+"\n")
			}
		}
	}
}

func TestRankNarrowerThanAnyLayout(t *testing.T) {
	r := ranking{profiles: profile.Profiles()}
	if got, want := r.table(10).width(), r.layOut(rankLayouts[len(rankLayouts)-1]).width(); got != want {
		t.Errorf("got %d columns, want the narrowest layout's %d", got, want)
	}
}

// Every row whose system is not driven is marked, every score by design too, and
// nothing else is; what marks mean is said where there are any.
func TestMarks(t *testing.T) {
	driven := drivenBy([]string{"cell", "docker"})
	for _, p := range profile.Profiles(profile.AetherVM, profile.Cell, profile.Docker) {
		r := ranking{profiles: []profile.Profile{p}, driven: driven}
		rows := strings.Split(r.table(100).render(screen{})+driven.footnotes(screen{}, r.profiles), "\n")
		named := strings.Contains(rows[1], p.System.Name()+noDriver)
		if want := p.System == profile.AetherVM; named != want {
			t.Errorf("%s: marked as without a driver is %v", p.System, named)
		}
		marks := strings.Count(rows[1], designMark)
		want := map[profile.System]int{profile.AetherVM: 4, profile.Cell: 2, profile.Docker: 0}[p.System]
		if marks != want {
			t.Errorf("%s: %d numbers are marked as by design, want %d", p.System, marks, want)
		}
		notes := strings.Join(rows[2:], "\n")
		if strings.Contains(notes, designMark) != (marks > 0) || strings.Contains(notes, noDriver) != named {
			t.Errorf("%s: the notes are %q", p.System, notes)
		}
	}
}

func TestFootnotesFitTheWidth(t *testing.T) {
	for line := range strings.Lines(drivenSystems{}.footnotes(screen{width: 40, colour: true}, profile.Profiles())) {
		if line = unpainted(strings.TrimSuffix(line, "\n")); utf8.RuneCountInString(line) > 40 {
			t.Errorf("%q is wider than 40 columns", line)
		}
	}
}

// Colour must change no text and no alignment.
func TestColourOnlyAddsColour(t *testing.T) {
	r := ranking{profiles: profile.Rank(profile.Profiles())}
	c := comparison{Comparison: profile.Compare(profile.Docker, profile.Docker)}
	for name, draw := range map[string]func(screen) string{
		"rank":    func(s screen) string { return r.table(0).render(s) },
		"compare": func(s screen) string { return c.deltas(s) + c.driven.footnotes(s, profile.Profiles(c.A)) },
		"why":     func(s screen) string { return c.explain(s) },
		"profile": func(s screen) string { return describe(s, profile.Kata, nil) },
		"systems": func(s screen) string { return systemsText(availabilities(t.Context(), nil), s) },
	} {
		plain, painted := draw(screen{}), draw(screen{colour: true})
		if strings.Contains(plain, "\x1b") || !strings.Contains(painted, "\x1b[") {
			t.Errorf("%s: colour where none belongs, or none where it does", name)
		}
		if unpainted(painted) != plain {
			t.Errorf("%s: without colour\n%s\nwith\n%s", name, plain, unpainted(painted))
		}
	}
}

func unpainted(s string) string {
	for _, as := range []style{bold, dim, red, green, yellow} {
		s = strings.ReplaceAll(s, "\x1b["+string(as)+"m", "")
	}
	return strings.ReplaceAll(s, "\x1b[0m", "")
}

func TestColourIsOptional(t *testing.T) {
	for _, c := range []struct {
		noColour, term string
		want           bool
	}{{"", "xterm", true}, {"1", "xterm", false}, {"", "dumb", false}} {
		t.Setenv("NO_COLOR", c.noColour)
		t.Setenv("TERM", c.term)
		if got := wantsColour(); got != c.want {
			t.Errorf("NO_COLOR=%s TERM=%s: colour %v", c.noColour, c.term, got)
		}
	}
}

func TestFileIsNoTerminal(t *testing.T) {
	f, err := os.Create(t.TempDir() + "/out")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if got := screenOf(f); got != (screen{}) {
		t.Errorf("got %+v", got)
	}
}

func TestBar(t *testing.T) {
	for _, c := range []struct {
		value float64
		width int
		want  string
	}{
		{0, 4, ""}, {1, 4, "████"}, {0.5, 4, "██"}, {0.5, 1, "▌"}, {1.0 / 8, 1, "▏"}, {7.0 / 8, 1, "▉"},
		{0.9, 4, "███▋"}, {-1, 4, ""}, {2, 4, "████"}, {0.7, 0, ""},
	} {
		if got := bar(c.value, c.width); got != c.want {
			t.Errorf("bar(%v, %d) = %q, want %q", c.value, c.width, got, c.want)
		}
	}
}

func TestWrap(t *testing.T) {
	for _, c := range []struct {
		text  string
		width int
		want  string
	}{
		{"", 5, ""}, {"one two", 7, "one two"}, {"one two", 6, "one|two"}, {"a  b\nc", 9, "a b c"},
		{"overlong word", 4, "overlong|word"}, {"ää öö üü", 5, "ää öö|üü"}, {"a b", -3, "a|b"},
	} {
		if got := strings.Join(wrap(c.text, c.width), "|"); got != c.want {
			t.Errorf("wrap(%q, %d) = %q, want %q", c.text, c.width, got, c.want)
		}
	}
}

func TestNearest(t *testing.T) {
	known := []string{"rank", "compare", "profile", "firecracker", "vz", "--core"}
	for typed, want := range map[string]string{
		"rnak": "rank", "RANK": "rank", "ran": "rank", "comapre": "compare", "pro": "profile", "firecraker": "firecracker",
		"vx": "vz", "--cor": "--core", "virtualbox": "", "": "", "x": "", "tcsh": "", strings.Repeat("r", 1000): "",
	} {
		if got, ok := nearest(typed, known); got != want || ok != (want != "") {
			t.Errorf("nearest(%.20q) = %q, want %q", typed, got, want)
		}
	}
}

func TestDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{
		{"", "", 0}, {"", "abc", 3}, {"abc", "", 3}, {"abc", "abc", 0}, {"abc", "acb", 1}, {"kitten", "sitting", 3}, {"ab", "ba", 1},
	} {
		if got := distance(c.a, c.b); got != c.want {
			t.Errorf("distance(%q, %q) = %d, want %d", c.a, c.b, got, c.want)
		}
	}
}
