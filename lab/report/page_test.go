package report

import (
	"encoding/xml"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"aether/lab"
	"aether/lab/run"
	"aether/profile"
)

const hostile = `<script>document.title="broken"</script>" onload="x` + "\x1b[31m"

// written is a page of a run with systems that differ by powers of ten, with absent axes,
// and with words of a hostile system in every field that one writes.
func written(t *testing.T) (name string, r run.Run) {
	t.Helper()
	dir := t.TempDir()
	var axes []string
	for _, a := range profile.Axes() {
		axes = append(axes, a.String())
	}
	systems := []string{"cell", "docker", "gvisor", "kata", "qemu-kvm"}
	s, err := run.Create(filepath.Join(dir, "run"), run.Header{Schema: run.Schema, ID: "test", Systems: systems, Axes: axes,
		Host: lab.Host{Kernel: "6.1.0", Arch: "amd64", Cores: 2, MemoryMiB: 4096, User: "root", CPU: "EPYC " + hostile}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	add := func(r run.Record) {
		t.Helper()
		if err := s.Append(r); err != nil {
			t.Fatal(err)
		}
	}
	add(run.Record{Kind: run.Quiet, Busy: 0.4, Load: 3})
	for i, system := range systems {
		if system == "kata" {
			add(run.Record{Kind: run.Found, System: system, Reason: "no KVM here " + hostile})
			continue
		}
		add(run.Record{Kind: run.Found, System: system, Machine: &run.Machine{Boundary: "process", Version: "1" + hostile}})
		slow := math.Pow(10, float64(i))
		sample := func(axis profile.Axis, figure string, unit run.Unit, at, value float64) {
			add(run.Record{Kind: run.Sampled, System: system, Axis: axis.String(), Figure: figure, At: at, Value: value, Unit: unit,
				Parts: []run.Part{{Name: "create", Value: value / 2}, {Name: hostile, Value: value / 2}}})
		}
		for n := range 20 {
			for _, at := range []float64{1, 4} {
				sample(profile.StartLatency, run.Cold, run.Microseconds, at, 900*slow+float64(n)*50*slow)
				if system != "docker" {
					sample(profile.StartLatency, run.Fork, run.Microseconds, at, 700*slow+float64(n)*10*slow)
				}
			}
		}
		for _, n := range []float64{1, 10, 100} {
			sample(profile.Density, run.Memory, run.KiB, n, 400*slow)
			sample(profile.Snapshotting, run.Copies, run.Microseconds, n, 1000*slow*n)
		}
		for _, mib := range []float64{16, 64, 256} {
			sample(profile.Snapshotting, run.Fork, run.Microseconds, mib, 1000*slow+mib)
		}
		for _, f := range []string{run.Files, run.LiveMemory} {
			add(run.Record{Kind: run.Proved, System: system, Axis: profile.Snapshotting.String(), Fact: f, By: run.Fork, Holds: i != 1, Proof: hostile})
		}
		if system == "cell" {
			add(run.Record{Kind: run.Absent, System: system, Axis: profile.Isolation.String(), Reason: "nothing tried it " + hostile})
		}
		for n := range 80 {
			if system != "cell" {
				add(run.Record{Kind: run.Proved, System: system, Axis: profile.Isolation.String(), Fact: fmt.Sprintf("probe %d", n), By: "kernel", Holds: n%(i+2) != 0, Proof: hostile})
			}
		}
	}
	if _, err = s.Summarize(); err != nil {
		t.Fatal(err)
	}
	if err := Write(s.Dir()); err != nil {
		t.Fatal(err)
	}
	if r, err = run.Load(s.Dir()); err != nil {
		t.Fatal(err)
	}
	name = filepath.Join(s.Dir(), File)
	return name, r
}

// TestPage: every link leads to a place of the page, the page asks for nothing, and words of
// others are words.
func TestPage(t *testing.T) {
	name, r := written(t)
	content, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	text := string(content)
	places := map[string]bool{}
	for _, m := range regexp.MustCompile(` id="([^"]*)"`).FindAllStringSubmatch(text, -1) {
		if places[m[1]] {
			t.Errorf("two places are called %s", m[1])
		}
		places[m[1]] = true
	}
	links := regexp.MustCompile(` href="([^"]*)"`).FindAllStringSubmatch(text, -1)
	for _, m := range links {
		if !strings.HasPrefix(m[1], "#") || !places[m[1][1:]] {
			t.Errorf("a link leads to %s", m[1])
		}
	}
	if len(links) < 500 {
		t.Errorf("%d links", len(links))
	}
	for _, s := range r.Results {
		for _, a := range s.Axes {
			for _, f := range a.Figures {
				for _, line := range f.Lines {
					if !places[fmt.Sprintf("L%d", line)] {
						t.Errorf("record %d of %s is not on the page", line, s.System)
					}
				}
			}
		}
	}
	for _, bad := range []string{"<script", "http://", "https://", "ZgotmplZ", "<no value>", "NaN", "Inf", "\x1b"} {
		if strings.Contains(text, bad) {
			t.Errorf("the page has %s", bad)
		}
	}
	for _, want := range []string{`id="busy"`, `id="incomplete"`, "no KVM here", "One start at a time", "4 starts at once"} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %s", want)
		}
	}
}

func TestValueText(t *testing.T) {
	for _, c := range []struct {
		value float64
		unit  run.Unit
		want  string
	}{
		{0, run.Microseconds, "0 µs"}, {0.5, run.Microseconds, "0.50 µs"}, {999.9, run.Microseconds, "1 ms"}, {1234, run.Microseconds, "1.23 ms"},
		{45_678, run.Microseconds, "45.7 ms"}, {12_345_678, run.Microseconds, "12.3 s"}, {100, run.KiB, "100 KiB"}, {1536, run.KiB, "1.50 MiB"},
		{-12, run.KiB, "-12 KiB"}, {0.25, run.Share, "25 %"}, {3, run.Count, "3"},
	} {
		if got := valueText(c.value, c.unit); got != c.want {
			t.Errorf("%v %s is %q, want %q", c.value, c.unit, got, c.want)
		}
	}
}

// TestApart: names at the ends of curves never cover each other, and stay in the picture.
func TestApart(t *testing.T) {
	lines := make([]curve, 12)
	for i := range lines {
		lines[i].LabelY = []float64{250, 250, 14, 100}[i%4]
	}
	apart(lines, curveTop, curveHigh-curveBottom)
	for i, a := range lines {
		for j, b := range lines {
			if i != j && math.Abs(a.LabelY-b.LabelY) < lineHigh-0.001 {
				t.Errorf("%d and %d are at %v and %v", i, j, a.LabelY, b.LabelY)
			}
		}
		if a.LabelY < curveTop || a.LabelY > curveHigh-curveBottom {
			t.Errorf("%d is at %v", i, a.LabelY)
		}
	}
}

// TestPicture: the picture is well-formed XML in which nothing of a hostile system is more
// than text, with a row for each system that was measured.
func TestPicture(t *testing.T) {
	_, r := written(t)
	var b strings.Builder
	if err := Picture(&b, r); err != nil {
		t.Fatal(err)
	}
	elements := map[string]int{}
	var words []string
	for d := xml.NewDecoder(strings.NewReader(b.String())); ; {
		token, err := d.Token()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		switch token := token.(type) {
		case xml.StartElement:
			elements[token.Name.Local]++
			for _, a := range token.Attr {
				if strings.HasPrefix(a.Name.Local, "on") {
					t.Errorf("<%s %s=%q>", token.Name.Local, a.Name.Local, a.Value)
				}
			}
		case xml.CharData:
			words = append(words, string(token))
		}
	}
	if elements["script"] > 0 || elements["rect"] < 4*5 {
		t.Errorf("%v", elements)
	}
	said := strings.Join(words, "\n")
	for _, word := range []string{"cell", "docker", "gvisor", "qemu-kvm", "EPYC", "The host was busy", "agent-control"} {
		if !strings.Contains(said, word) {
			t.Errorf("it does not say %q:\n%s", word, said)
		}
	}
	if strings.Contains(said, "kata") || strings.Contains(b.String(), "\x1b") {
		t.Errorf("what was not measured, or what a terminal obeys, is in it:\n%s", said)
	}
}
