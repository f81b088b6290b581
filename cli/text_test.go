package cli

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	"aether/profile"
)

func TestRankFitsTheWidth(t *testing.T) {
	// 64 is what the narrowest layout needs with weights.
	everything := ranking{profiles: profile.Rank(profile.Profiles())}
	weighted := everything
	weighted.weights = profile.Weights{profile.Isolation: 3}
	for _, width := range []int{64, 80, 100, 120, 200} {
		for name, r := range map[string]ranking{"plain": everything, "weighted": weighted} {
			drawn := r.table(width).render(screen{})
			for line := range strings.Lines(drawn) {
				if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > width {
					t.Errorf("%s in %d columns has a line of %d", name, width, n)
				}
			}
			if name == "plain" && width <= 120 {
				golden(t, fmt.Sprintf("rank-%d.txt", width), drawn+"\n")
			}
		}
	}
}

func TestRankNarrowerThanAnyLayout(t *testing.T) {
	r := ranking{profiles: profile.Profiles()}
	if got, want := r.table(10).width(), r.layOut(rankLayouts[2]).width(); got != want {
		t.Errorf("got %d columns, want the narrowest layout's %d", got, want)
	}
}

// Colour must change no text and no alignment.
func TestColourOnlyAddsColour(t *testing.T) {
	r := ranking{profiles: profile.Rank(profile.Profiles())}
	c := profile.Compare(profile.Docker, profile.Docker)
	for name, draw := range map[string]func(screen) string{
		"rank":    func(s screen) string { return r.table(0).render(s) },
		"compare": func(s screen) string { return paintDeltas(s, c.String()) },
		"why":     func(s screen) string { return explain(s, c) },
		"profile": func(s screen) string { return describe(s, profile.Kata) },
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
