package run

import (
	"aether/lab"
)

// Schema is the version of the files. Fields may be added without a new one.
const Schema = 1

// Header is what a run was asked for, and where.
type Header struct {
	Schema int `json:"schema"`
	// ID names the run.
	ID      string   `json:"id"`
	Program string   `json:"program,omitempty"` // the version that measured
	Quick   bool     `json:"quick"`
	Systems []string `json:"systems"`
	Axes    []string `json:"axes"`
	Host    lab.Host `json:"host"`
}

// Run is the summary of a run, made of its records alone.
type Run struct {
	Header
	// Complete is false for a run that was stopped: it can go on.
	Complete    bool    `json:"complete"`
	TookSeconds float64 `json:"took_seconds"`
	Busy        Busy    `json:"busy"`
	// Results are in the order of the systems that were asked for.
	Results []System `json:"results"`
}

// Busy is what else the host did during the run.
type Busy struct {
	// Said is that figures may be off for it.
	Said bool `json:"said"`
	// Most is the greatest share of the processors that others were seen to use while
	// the lab did nothing, and Load the greatest load average.
	Most float64 `json:"most"`
	Load float64 `json:"load"`
	// Looks is how often that was looked at.
	Looks int `json:"looks"`
}

// System is what was found out about one system.
type System struct {
	System   string   `json:"system"`
	Boundary string   `json:"boundary,omitempty"`
	Version  string   `json:"version,omitempty"`
	Gaps     []string `json:"gaps,omitempty"`
	// Absent is why nothing of it was measured.
	Absent string `json:"absent,omitempty"`
	// Fitness is the mean of the scores of all five axes; it is absent if one of those is.
	Fitness *float64 `json:"fitness,omitempty"`
	// Axes are in the order of the profiles'. Those that were not asked for are not there.
	Axes []Axis `json:"axes,omitempty"`
}

// Axis is what was found out about a system on one axis.
type Axis struct {
	Axis string `json:"axis"`
	// Score is from 0 to 1; where it is absent, Absent says why.
	Score  *float64 `json:"score,omitempty"`
	Absent string   `json:"absent,omitempty"`
	// Why says in a sentence what the score rests on.
	Why string `json:"why,omitempty"`
	// Curated is the profile's score; it is absent for systems without a profile.
	Curated *float64 `json:"curated,omitempty"`
	// Disagreement says by how much the measured score differs from the profile's, and why,
	// where that is more than 0.2.
	Disagreement string   `json:"disagreement,omitempty"`
	Figures      []Figure `json:"figures,omitempty"`
	Facts        []Fact   `json:"facts,omitempty"`
	// Missing are parts of the axis that could not be measured, with the reason.
	Missing []Missing `json:"missing,omitempty"`
}

// Figure is what the samples of one name and place say.
type Figure struct {
	Figure string  `json:"figure"`
	At     float64 `json:"at,omitempty"`
	Unit   Unit    `json:"unit"`
	// Samples is how many there are, and Lines where they stand in the file of records.
	Samples int   `json:"samples"`
	Lines   []int `json:"lines"`

	Min    float64 `json:"min"`
	P10    float64 `json:"p10"`
	Median float64 `json:"median"`
	P90    float64 `json:"p90"`
	P99    float64 `json:"p99"`
	Max    float64 `json:"max"`
	// Spread is the median distance from the median.
	Spread float64 `json:"spread"`
	// Parts are the medians of the samples' parts.
	Parts []Part `json:"parts,omitempty"`
}

// Fact is a yes or no that a call has shown.
type Fact struct {
	Fact  string `json:"fact"`
	By    string `json:"by,omitempty"`
	Holds bool   `json:"holds"`
	Proof string `json:"proof"`
	Line  int    `json:"line"`
}

// Missing is a part of an axis that was not measured.
type Missing struct {
	What   string `json:"what"`
	Reason string `json:"reason"`
	Line   int    `json:"line"`
}
