package lifecycle

import "aether/lab"

// Report is everything that was found out. A value that was not measured is
// absent, never zero.
type Report struct {
	Systems []System      `json:"systems"`
	Cold    []lab.Row     `json:"cold_spawn"`
	Exec    []lab.Row     `json:"exec"`
	Idle    []Footprint   `json:"idle_memory"`
	Churn   []Rate        `json:"churn"`
	Targets []lab.Verdict `json:"targets"`
	cores   int
}

// System is a participant, or why it is none.
type System struct {
	Name    string `json:"name"`
	Version string `json:"version,omitempty"`
	Skipped string `json:"skipped,omitempty"`
}

// Footprint is a row of memory at Live living sandboxes.
type Footprint struct {
	Name    string     `json:"name"`
	Live    int        `json:"live,omitempty"`
	EachKiB float64    `json:"each_kib,omitempty"`
	Of      lab.Ratios `json:"of,omitempty"`
	Parts   []lab.Part `json:"parts,omitempty"`
}

// Rate is a row of sandboxes made, used and removed in each second.
type Rate struct {
	Name      string     `json:"name"`
	PerSecond float64    `json:"per_second,omitempty"`
	WorstRate float64    `json:"worst_slice,omitempty"`
	Of        lab.Ratios `json:"of,omitempty"`
	Parts     []lab.Part `json:"parts,omitempty"`
}
