package main

import "time"

// report is everything that a run found out. A value that was not measured is
// absent, never zero.
type report struct {
	Host        host        `json:"host"`
	Rounds      int         `json:"rounds"`
	TookSeconds float64     `json:"took_seconds"`
	Systems     []system    `json:"systems"`
	Cold        []latency   `json:"cold_spawn"`
	Exec        []latency   `json:"exec"`
	Idle        []footprint `json:"idle_memory"`
	Churn       []rate      `json:"churn"`
	Targets     []verdict   `json:"targets"`
	Forks       *forks      `json:"forks,omitempty"`
}

// host is what the figures depend on besides the systems.
type host struct {
	Kernel      string  `json:"kernel"`
	Arch        string  `json:"arch"`
	Cores       int     `json:"cores"`
	MemoryMiB   int64   `json:"memory_mib"`
	User        string  `json:"user"`
	LoadBefore  float64 `json:"load_before"`
	LoadAfter   float64 `json:"load_after"`
	StartedUnix int64   `json:"started_unix"`
}

// system is a participant, or why it is none.
type system struct {
	Name    string `json:"name"`
	Version string `json:"version,omitempty"`
	Skipped string `json:"skipped,omitempty"`
}

// ratios compare a figure with the peers' figures in the same table.
type ratios struct {
	OfBwrap float64 `json:"of_bwrap,omitempty"`
	OfCrun  float64 `json:"of_crun,omitempty"`
}

// latency is a row of times to the first byte.
type latency struct {
	System string `json:"system"`
	// P10US is nearly free of what else the host did meanwhile.
	P10US    float64 `json:"p10_us,omitempty"`
	MedianUS float64 `json:"median_us,omitempty"`
	P99US    float64 `json:"p99_us,omitempty"`
	ratios
	// Parts and TailParts say where the median and the p99 went.
	Parts     []part `json:"parts,omitempty"`
	TailParts []part `json:"tail_parts,omitempty"`
	Skipped   string `json:"skipped,omitempty"`
}

// footprint is a row of memory at Live living sandboxes.
type footprint struct {
	System  string  `json:"system"`
	Live    int     `json:"live,omitempty"`
	EachKiB float64 `json:"each_kib,omitempty"`
	ratios
	Parts   []part `json:"parts,omitempty"`
	Skipped string `json:"skipped,omitempty"`
}

// rate is a row of sandboxes made, used and removed in each second.
type rate struct {
	System    string  `json:"system"`
	PerSecond float64 `json:"per_second,omitempty"`
	WorstRate float64 `json:"worst_slice,omitempty"`
	ratios
	Parts   []part `json:"parts,omitempty"`
	Skipped string `json:"skipped,omitempty"`
}

// part is a share of a figure, in the figure's unit.
type part struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
}

func micros(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 }

// partsOf are the laps up to the first byte, or all of them.
func partsOf(laps []lap, all bool) []part {
	var parts []part
	for _, l := range laps {
		if all || !l.after {
			parts = append(parts, part{l.name, micros(l.took)})
		}
	}
	return parts
}

func newLatency(name string, samples []sample) latency {
	sorted := firsts(samples)
	return latency{
		System:    name,
		P10US:     micros(quantile(sorted, 0.1)),
		MedianUS:  micros(quantile(sorted, 0.5)),
		P99US:     micros(quantile(sorted, 0.99)),
		Parts:     partsOf(typicalLaps(samples), false),
		TailParts: partsOf(tailLaps(samples), false),
	}
}

// compare fills in the ratios of a table's rows.
func compare[R any](rows []R, figure func(R) (string, float64), into func(*R) *ratios) {
	known := map[string]float64{}
	for _, row := range rows {
		name, value := figure(row)
		known[name] = value
	}
	for i := range rows {
		_, value := figure(rows[i])
		*into(&rows[i]) = ratios{of(value, known[nameBwrap]), of(value, known[nameCrun])}
	}
}

// of is zero, and so absent, where there is nothing to compare with.
func of(value, other float64) float64 {
	if other == 0 {
		return 0
	}
	return value / other
}
