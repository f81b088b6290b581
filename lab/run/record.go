package run

import "aether/lab"

// Kind is what a record says.
type Kind string

const (
	// Begin is the first record: what the run was asked for and on which host.
	Begin Kind = "begin"
	// Found says that a system is there, or why it is not.
	Found Kind = "system"
	// Sampled is a measured value.
	Sampled Kind = "sample"
	// Proved is a fact that a call has shown to hold or not to hold.
	Proved Kind = "fact"
	// Absent is why something could not be measured.
	Absent Kind = "absent"
	// Quiet is how busy the host was while the lab did nothing.
	Quiet Kind = "host"
	// Done says that nothing more comes of a step: a run that goes on leaves it out.
	Done Kind = "done"
	// End is the last record of a run that is complete.
	End Kind = "end"
)

// Record is a line of a run. Which fields it has follows from its kind.
type Record struct {
	Kind Kind `json:"kind"`
	// Line is the number of the record in its file, from 1.
	Line int `json:"-"`
	// UnixMS is when it was written.
	UnixMS int64 `json:"unix_ms"`

	System string `json:"system,omitempty"`
	Axis   string `json:"axis,omitempty"`
	// Step is that of Done.
	Step string `json:"step,omitempty"`

	// Figure is what was sampled, as "cold"; At is the place on its curve, as 64 (MiB).
	Figure string  `json:"figure,omitempty"`
	At     float64 `json:"at,omitempty"`
	Round  int     `json:"round,omitempty"`
	Value  float64 `json:"value,omitempty"`
	Unit   Unit    `json:"unit,omitempty"`
	// Parts are where the value went, in the same unit.
	Parts []Part `json:"parts,omitempty"`

	// Fact is what Proved is about, By whose interface was called, Holds what came out and
	// Proof what was called and answered.
	Fact  string `json:"fact,omitempty"`
	By    string `json:"by,omitempty"`
	Holds bool   `json:"holds,omitempty"`
	Proof string `json:"proof,omitempty"`

	// Reason is why something is absent.
	Reason string `json:"reason,omitempty"`

	// Busy is the share of the processors that others used, and Load the load average.
	Busy float64 `json:"busy,omitempty"`
	Load float64 `json:"load,omitempty"`

	Start   *Header  `json:"start,omitempty"`
	Machine *Machine `json:"machine,omitempty"`
}

// Unit is what values are counted in.
type Unit string

const (
	Microseconds Unit = "us"
	KiB          Unit = "kib"
	// Share is a part of one.
	Share Unit = "share"
	Count Unit = "count"
)

// Part is a named part of a value.
type Part struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	// After says that it came after what the value counts.
	After bool `json:"after,omitempty"`
}

// Machine is what a system is on this host.
type Machine struct {
	Boundary string `json:"boundary"`
	Version  string `json:"version,omitempty"`
	// Gaps are what it has to do without on this host.
	Gaps []string `json:"gaps,omitempty"`
}

// FromSample fills in a record of what was measured in a turn.
func FromSample(s lab.Sample, r Record) Record {
	r.Kind, r.Value, r.Unit = Sampled, lab.Micros(s.First), Microseconds
	for _, l := range s.Laps {
		r.Parts = append(r.Parts, Part{l.Name, lab.Micros(l.Took), l.After})
	}
	return r
}
