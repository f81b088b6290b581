package report

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// KVMFile is the name, in the directory of a run, of what was measured inside the KVM lab:
// a report of systems beside each other, as JSON.
const KVMFile = "kvm-lab.json"

// maxKVM bounds that file, and maxKVMRows what a section of it may have.
const (
	maxKVM     = 1 << 20
	maxKVMRows = 100
)

// besides are systems that need KVM, measured beside each other in one run inside an
// emulated machine. Times there mean nothing as such; their ratios do.
type besides struct {
	Driver   string  `json:"driver"`
	Peer     string  `json:"peer"`
	Rounds   int     `json:"rounds"`
	Boot     []timed `json:"boot"`
	Copy     []timed `json:"copy"`
	Snapshot []timed `json:"snapshot"`
	Still    []timed `json:"source_paused"`
}

// timed is a row of such a report.
type timed struct {
	Name    string  `json:"name"`
	P10     float64 `json:"p10_us"`
	Median  float64 `json:"median_us"`
	P99     float64 `json:"p99_us"`
	Samples int     `json:"samples"`
	Skipped string  `json:"skipped"`
}

// ratioTable is a section as it is shown: in ratios to the fastest row of the peer.
type ratioTable struct {
	Title, Base string
	Rows        []ratioRow
}

type ratioRow struct {
	Name, Ratio, Range, Skipped string
	Samples                     int
}

// readKVM reads what is in the directory of a run, or nothing if there is none.
func readKVM(dir string) (*besides, error) {
	file, err := os.Open(filepath.Join(dir, KVMFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	b, err := parseKVM(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file.Name(), err)
	}
	return b, nil
}

func parseKVM(from io.Reader) (*besides, error) {
	text, err := io.ReadAll(io.LimitReader(from, maxKVM+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxKVM {
		return nil, fmt.Errorf("it has more than %d bytes", maxKVM)
	}
	var b besides
	if err := json.Unmarshal(text, &b); err != nil {
		return nil, err
	}
	rows := 0
	for _, s := range b.sections() {
		rows += len(s.rows)
		if len(s.rows) > maxKVMRows {
			return nil, fmt.Errorf("%q has more than %d rows", s.title, maxKVMRows)
		}
	}
	if b.Driver == "" || b.Peer == "" || rows == 0 {
		return nil, errors.New("it has no driver, no peer or no rows")
	}
	return &b, nil
}

type section struct {
	title string
	rows  []timed
}

func (b besides) sections() []section {
	return []section{{"From nothing to the first byte of a command", b.Boot}, {"A copy, to its first reply", b.Copy},
		{"Until a snapshot is in files", b.Snapshot}, {"A machine that is copied stands still", b.Still}}
}

// Tables are the sections of which the peer has a row.
func (b besides) Tables() (list []ratioTable) {
	for _, s := range b.sections() {
		var base *timed
		for i, r := range s.rows {
			theirs := r.Name == b.Peer || strings.HasPrefix(r.Name, b.Peer+",")
			if theirs && r.Median > 0 && (base == nil || r.Median < base.Median) {
				base = &s.rows[i]
			}
		}
		if base == nil {
			continue
		}
		t := ratioTable{Title: s.title, Base: base.Name}
		for _, r := range s.rows {
			row := ratioRow{Name: r.Name, Samples: r.Samples, Skipped: r.Skipped, Ratio: "–", Range: "–"}
			if r.Skipped == "" && r.Median > 0 {
				row.Ratio = digits(r.Median / base.Median)
				row.Range = digits(r.P10/base.Median) + " to " + digits(r.P99/base.Median)
			}
			t.Rows = append(t.Rows, row)
		}
		list = append(list, t)
	}
	return list
}
