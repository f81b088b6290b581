package run

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"aether/profile"
	"aether/sandbox"
)

func allAxes() (names []string) {
	for _, a := range profile.Axes() {
		names = append(names, a.String())
	}
	return names
}

func newStore(t *testing.T, systems ...string) *Store {
	t.Helper()
	s, err := Create(filepath.Join(t.TempDir(), "run"), Header{Schema: Schema, ID: "test", Systems: systems, Axes: allAxes()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func add(t *testing.T, s *Store, records ...Record) {
	t.Helper()
	for _, r := range records {
		if err := s.Append(r); err != nil {
			t.Fatal(err)
		}
	}
}

func sample(system string, axis profile.Axis, figure string, at, value float64) Record {
	return Record{Kind: Sampled, System: system, Axis: axis.String(), Figure: figure, At: at, Value: value, Unit: Microseconds}
}

func fact(axis profile.Axis, name, by string, holds bool) Record {
	return Record{Kind: Proved, System: "docker", Axis: axis.String(), Fact: name, By: by, Holds: holds, Proof: "called"}
}

func TestSummary(t *testing.T) {
	s := newStore(t, "docker", "kata")
	add(t, s, Record{Kind: Found, System: "docker", Machine: &Machine{Boundary: "process", Version: "1"}},
		Record{Kind: Found, System: "kata", Reason: "no KVM"},
		Record{Kind: Quiet, Busy: 0.5, Load: 3},
		sample("docker", profile.StartLatency, Cold, 1, 90_000), sample("docker", profile.StartLatency, Cold, 1, 100_000),
		sample("docker", profile.StartLatency, Cold, 1, 110_000), sample("docker", profile.StartLatency, Cold, 4, 900_000),
		sample("docker", profile.Density, Memory, 10, 1000), sample("docker", profile.Density, Memory, 5, 7),
		sample("docker", profile.Snapshotting, Restore, ScoredMiB, 1_000_000), sample("docker", profile.Snapshotting, StillSnapshot, ScoredMiB, 1000),
		fact(profile.Snapshotting, Files, Restore, true), fact(profile.Snapshotting, LiveMemory, Restore, false),
		fact(profile.AgentControl, "create", Native, true), fact(profile.AgentControl, "create", Through, true),
		fact(profile.AgentControl, "schema", Native, false), fact(profile.AgentControl, "schema", Through, true),
		Record{Kind: Absent, System: "docker", Axis: profile.Isolation.String(), Reason: "nobody tries it"})
	r, err := s.Summarize()
	if err != nil {
		t.Fatal(err)
	}
	docker, kata := r.Results[0], r.Results[1]
	if r.Complete || !r.Busy.Said || r.Busy.Most != 0.5 || kata.Absent != "no KVM" || docker.Absent != "" || docker.Fitness != nil {
		t.Errorf("%+v", r)
	}
	want := map[string]string{"start-latency": "0.60", "density": "0.80", "isolation": "", "snapshotting": "0.17", "agent-control": "0.75"}
	for _, a := range docker.Axes {
		if got := scoreText(a); got != want[a.Axis] {
			t.Errorf("%s: %s, want %s: %s%s", a.Axis, got, want[a.Axis], a.Why, a.Absent)
		}
	}
	start := docker.Axis("start-latency")
	if start.Disagreement == "" || docker.Axis("isolation").Absent != "nobody tries it" || docker.Axis("agent-control").Disagreement != "" {
		t.Errorf("%+v", docker.Axes)
	}
	if f := start.Figure(Cold, 1); f.Samples != 3 || f.Median != 100_000 || f.Spread != 10_000 || f.Lines[0] != 5 {
		t.Errorf("%+v", f)
	}
	checkFiles(t, s, r)
}

func scoreText(a Axis) string {
	if a.Score == nil {
		return ""
	}
	return profile.Score(100**a.Score + 0.5).String()
}

// checkFiles holds that the summary is what the records say, whoever reads them.
func checkFiles(t *testing.T, s *Store, r Run) {
	t.Helper()
	written, err := os.ReadFile(filepath.Join(s.Dir(), SummaryFile))
	if err != nil {
		t.Fatal(err)
	}
	again, err := Load(s.Dir())
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.MarshalIndent(again, "", "  ")
	if err != nil || !bytes.Equal(append(text, '\n'), written) {
		t.Errorf("%v: read back as\n%s\nwritten as\n%s", err, text, written)
	}
	table, err := os.ReadFile(filepath.Join(s.Dir(), FiguresFile))
	if err != nil || !strings.Contains(string(table), "docker,start-latency,0.6") {
		t.Errorf("%v: %s", err, table)
	}
}

func TestResume(t *testing.T) {
	s := newStore(t, "cell")
	add(t, s, sample("cell", profile.StartLatency, Cold, 1, 500), Record{Kind: Done, Step: "start"})
	name := filepath.Join(s.Dir(), RecordsFile)
	file, err := os.OpenFile(name, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.WriteString(`{"kind":"sample","sys`); err != nil {
		t.Fatal(err)
	}
	file.Close()
	if _, err := Create(s.Dir(), Header{Schema: Schema}); sandbox.ClassOf(err) != sandbox.Conflict {
		t.Errorf("a run is written over: %v", err)
	}
	again, err := Resume(s.Dir())
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if !again.Has("start") || again.Has("density") || len(again.Records()) != 3 || again.Header().ID != "test" {
		t.Errorf("%+v", again.Records())
	}
	add(t, again, Record{Kind: End})
	if r, err := Load(s.Dir()); err != nil || !r.Complete {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestReadRefuses(t *testing.T) {
	begin := `{"kind":"begin","unix_ms":1,"start":{"schema":1,"id":"a","quick":false,"systems":[],"axes":[],"host":{}}}` + "\n"
	for content, class := range map[string]sandbox.Class{
		"": sandbox.Invalid, "{}\n": sandbox.Invalid, "no\n": sandbox.Invalid, begin + begin: sandbox.Invalid, begin + "[]\n": sandbox.Invalid,
		strings.Replace(begin, `"schema":1`, `"schema":2`, 1): sandbox.Invalid, `{"kind":"begin"}` + "\n": sandbox.Invalid,
		begin + strings.Repeat("x", maxLine+1) + "\n": sandbox.Invalid,
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, RecordsFile), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := Load(dir); sandbox.ClassOf(err) != class {
			t.Errorf("%.60q: %v", content, err)
		}
	}
	if _, err := Load(t.TempDir()); sandbox.ClassOf(err) != sandbox.NotFound {
		t.Error(err)
	}
}

// FuzzRead: any bytes are a run or are refused.
func FuzzRead(f *testing.F) {
	f.Add([]byte(`{"kind":"begin","unix_ms":1,"start":{"schema":1,"id":"a","quick":false,"systems":["cell"],"axes":["start-latency"],"host":{}}}` + "\n" +
		`{"kind":"system","unix_ms":2,"system":"cell","machine":{"boundary":"process"}}` + "\n" +
		`{"kind":"sample","unix_ms":2,"system":"cell","axis":"start-latency","figure":"cold","at":1,"value":5,"unit":"us"}` + "\n"))
	f.Fuzz(func(t *testing.T, content []byte) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, RecordsFile), content, 0o644); err != nil {
			t.Fatal(err)
		}
		r, err := Load(dir)
		if err != nil {
			return
		}
		if err := r.WriteCSV(&bytes.Buffer{}); err != nil {
			t.Error(err)
		}
	})
}
