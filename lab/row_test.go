package lab

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

func TestCompare(t *testing.T) {
	rows := []Row{{Name: "cell", MedianUS: 1}, {Name: "bwrap", MedianUS: 4}}
	CompareRows(rows, "bwrap", "crun")
	if rows[0].Of["bwrap"] != 0.25 || rows[1].Of["bwrap"] != 1 || rows[0].Of["crun"] != 0 {
		t.Errorf("%+v", rows)
	}
	text, err := json.Marshal(rows[0])
	if err != nil || !strings.Contains(string(text), `"of":{"bwrap":0.25}`) || strings.Contains(string(text), "crun") {
		t.Errorf("%s, %v", text, err)
	}
}

func TestRows(t *testing.T) {
	var samples []Sample
	for i := range 100 {
		d := time.Duration(i+1) * time.Millisecond
		samples = append(samples, Sample{First: 2 * d, Laps: []Lap{{Name: "fork", Took: d}}, Pause: d / 2})
	}
	row := NewRow("a", samples)
	if row.MinUS != 2_000 || row.P10US != 20_000 || row.MedianUS != 100_000 || row.P99US != 198_000 || row.Samples != 100 || row.Parts[0].Value != 50_000 {
		t.Errorf("%+v", row)
	}
	if p := Pauses("a", samples); p.MedianUS != 25_000 {
		t.Errorf("%+v", p)
	}
	if p := Pauses("a", []Sample{{}}); p.Skipped == "" {
		t.Errorf("%+v", p)
	}
}

func TestWhatIsNotMeasuredIsAbsent(t *testing.T) {
	text, err := json.Marshal(Row{Name: "a", Skipped: "b"})
	if err != nil || string(text) != `{"name":"a","skipped":"b"}` {
		t.Errorf("%s, %v", text, err)
	}
	if text, err = json.Marshal([]Part{{"a \"b\"", 1.5, KiB}}); err != nil || string(text) != `[{"name":"a \"b\"","kib":1.5}]` {
		t.Errorf("%s, %v", text, err)
	}
}
