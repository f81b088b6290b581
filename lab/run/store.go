package run

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"aether/lab"
	"aether/sandbox"
)

// The files of a run, in its directory.
const (
	RecordsFile = "records.jsonl"
	SummaryFile = "run.json"
	FiguresFile = "figures.csv"
)

const (
	maxLine    = 1 << 20
	maxRecords = 5_000_000
)

// Store is the directory of a run that is under way. It may be used by many at once.
type Store struct {
	dir     string
	mu      sync.Mutex
	file    *os.File
	records []Record
}

// Create begins a run in a directory that has none. Errors: Conflict if it has one.
func Create(dir string, h Header) (*Store, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(filepath.Join(dir, RecordsFile), os.O_CREATE|os.O_EXCL|os.O_WRONLY|os.O_APPEND, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return nil, &sandbox.Error{Class: sandbox.Conflict, Op: "lab", Reason: dir + " holds a run already"}
	}
	if err != nil {
		return nil, err
	}
	s := &Store{dir: dir, file: file}
	if err := s.Append(Record{Kind: Begin, Start: &h}); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// Resume opens a run that was stopped. A line that was being written when the program was
// killed is cut off. Errors: NotFound if there is none.
func Resume(dir string) (*Store, error) {
	records, whole, err := read(dir)
	if err != nil {
		return nil, err
	}
	file, err := os.OpenFile(filepath.Join(dir, RecordsFile), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return nil, err
	}
	if err := file.Truncate(whole); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return &Store{dir: dir, file: file, records: records}, nil
}

// Dir is where the run is kept.
func (s *Store) Dir() string { return s.dir }

// Header is what the run was asked for.
func (s *Store) Header() Header { return *s.records[0].Start }

// Records are all that there are so far.
func (s *Store) Records() []Record {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.records[:len(s.records):len(s.records)]
}

// Has says whether a step was done before.
func (s *Store) Has(step string) bool {
	for _, r := range s.Records() {
		if r.Kind == Done && r.Step == step {
			return true
		}
	}
	return false
}

// Step does what a run needs once: what was done before is left out, also when the run was
// stopped since.
func (s *Store) Step(step string, say *lab.Progress, do func() error) error {
	if s.Has(step) {
		return nil
	}
	say.Say("%s", step)
	if err := do(); err != nil {
		return err
	}
	return s.Append(Record{Kind: Done, Step: step})
}

// Append writes a record. It is in the file, as a whole line, when Append returns.
func (s *Store) Append(r Record) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	r.UnixMS = time.Now().UnixMilli()
	line, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if _, err := s.file.Write(append(line, '\n')); err != nil {
		return err
	}
	r.Line = len(s.records) + 1
	s.records = append(s.records, r)
	return nil
}

// Miss records why something is absent, once.
func (s *Store) Miss(system, axis, figure, reason string) error {
	for _, r := range s.Records() {
		if r.Kind == Absent && r.System == system && r.Axis == axis && r.Figure == figure {
			return nil
		}
	}
	return s.Append(Record{Kind: Absent, System: system, Axis: axis, Figure: figure, Reason: reason})
}

// Summarize makes the Run of the records and writes it, as JSON and its figures as CSV.
func (s *Store) Summarize() (Run, error) {
	r, err := summarize(s.Records())
	if err != nil {
		return r, err
	}
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return r, err
	}
	if err := replace(filepath.Join(s.dir, SummaryFile), append(text, '\n')); err != nil {
		return r, err
	}
	var table bytes.Buffer
	if err := r.WriteCSV(&table); err != nil {
		return r, err
	}
	return r, replace(filepath.Join(s.dir, FiguresFile), table.Bytes())
}

// replace has a file be whole at every instant.
func replace(name string, content []byte) error {
	if err := os.WriteFile(name+".new", content, 0o644); err != nil {
		return err
	}
	return os.Rename(name+".new", name)
}

// Close ends the writing.
func (s *Store) Close() error { return s.file.Close() }

// Load reads a run, whether it is complete or not, from its records. Errors: NotFound if
// there is none, Invalid for a file that is none.
func Load(dir string) (Run, error) {
	records, err := Read(dir)
	if err != nil {
		return Run{}, err
	}
	return summarize(records)
}

// Read gives the records of a run.
func Read(dir string) ([]Record, error) {
	records, _, err := read(dir)
	return records, err
}

// read also says how many bytes the whole lines take.
func read(dir string) (records []Record, whole int64, err error) {
	file, err := os.Open(filepath.Join(dir, RecordsFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, 0, &sandbox.Error{Class: sandbox.NotFound, Op: "lab", Reason: "there is no run in " + dir, Remedy: "make one with: aether lab run --out " + dir}
	}
	if err != nil {
		return nil, 0, err
	}
	defer file.Close()
	lines := bufio.NewReaderSize(file, maxLine)
	for {
		line, err := lines.ReadSlice('\n')
		if err != nil && len(line) < maxLine {
			break // what is left was not written whole
		}
		var r Record
		if err == nil {
			err = json.Unmarshal(line, &r)
		}
		if err == nil && (len(records) == 0) != (r.Kind == Begin && r.Start != nil) {
			err = errors.New("a run begins once, and at its first line")
		}
		if err != nil || len(records) == maxRecords {
			return nil, 0, &sandbox.Error{Class: sandbox.Invalid, Field: "run", Reason: fmt.Sprintf("line %d of %s is no record of a run", len(records)+1, file.Name()), Err: err}
		}
		r.Line = len(records) + 1
		records = append(records, r)
		whole += int64(len(line))
	}
	if len(records) == 0 {
		return nil, 0, &sandbox.Error{Class: sandbox.Invalid, Field: "run", Reason: file.Name() + " is empty"}
	}
	if have := records[0].Start.Schema; have != Schema {
		return nil, 0, &sandbox.Error{Class: sandbox.Invalid, Field: "run", Reason: fmt.Sprintf("%s has schema %d; this program reads %d", file.Name(), have, Schema)}
	}
	return records, whole, nil
}
