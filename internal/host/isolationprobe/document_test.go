package isolationprobe

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode"
)

func TestParse(t *testing.T) {
	d, err := Parse([]byte(`{"version":1,"calls":{"tried":3,"answered":1,"refused":1,"absent":1},"sightings":[{"name":"see-file","state":"closed","seen":"a\u001b[2Jb"}]}` + "\n"))
	if err != nil || d.Calls.Answered != 1 || len(d.Sightings) != 1 || d.Sightings[0].Seen != "a [2Jb" {
		t.Errorf("%+v, %v", d, err)
	}
}

// TestParseRefuses: what comes from inside may be anything.
func TestParseRefuses(t *testing.T) {
	many := strings.TrimSuffix(strings.Repeat(`{"name":"a","state":"open"},`, maxProbes+1), ",")
	for name, text := range map[string]string{
		"nothing":             ``,
		"another version":     `{"version":2}`,
		"an unknown field":    `{"version":1,"score":1}`,
		"two documents":       `{"version":1}{"version":1}`,
		"a negative number":   `{"version":1,"calls":{"tried":-1,"answered":-1}}`,
		"numbers that do not": `{"version":1,"calls":{"tried":3,"answered":1}}`,
		"a huge number":       `{"version":1,"calls":{"tried":9000000,"answered":9000000}}`,
		"a bad name":          `{"version":1,"sightings":[{"name":"A B","state":"open"}]}`,
		"a long name":         `{"version":1,"sightings":[{"name":"` + strings.Repeat("a", maxName+1) + `","state":"open"}]}`,
		"a bad state":         `{"version":1,"sightings":[{"name":"a","state":"safe"}]}`,
		"a name twice":        `{"version":1,"sightings":[{"name":"a","state":"open"},{"name":"a","state":"closed"}]}`,
		"too many":            `{"version":1,"sightings":[` + many + `]}`,
		"too much":            `{"version":1,"sightings":[{"name":"a","state":"open","seen":"` + strings.Repeat("x", MaxDocument) + `"}]}`,
		"depth":               strings.Repeat(`[`, 10_000),
	} {
		if d, err := Parse([]byte(text)); err == nil || len(err.Error()) > 400 || len(d.Sightings) > 0 {
			t.Errorf("%s: %+v, %v", name, d, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"version":1,"calls":{"tried":3,"answered":1,"refused":1,"absent":1},"sightings":[{"name":"see-file","state":"closed","seen":"x"}]}`))
	f.Add([]byte(`{"version":1,"sightings":[{"name":"a","state":"value","seen":"\u0000\ud800\u001b"}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		d, err := Parse(text)
		if err != nil {
			if len(err.Error()) > 1000 {
				t.Errorf("a long error of %d bytes", len(text))
			}
			return
		}
		for _, s := range d.Sightings {
			if len(s.Seen) > maxSeen || strings.ContainsFunc(s.Seen, func(r rune) bool { return !unicode.IsPrint(r) }) {
				t.Errorf("not to be printed: %q", s.Seen)
			}
		}
		again, err := json.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Parse(again); err != nil && len(again) <= MaxDocument {
			t.Errorf("%s is not read again: %v", again, err)
		}
	})
}
