package lab

import (
	"slices"
	"time"
)

// Row is what a contender's samples say. A value that was not measured is absent,
// never zero.
type Row struct {
	Name  string  `json:"name"`
	MinUS float64 `json:"min_us,omitempty"`
	// P10US is nearly free of what else the host did meanwhile.
	P10US    float64 `json:"p10_us,omitempty"`
	MedianUS float64 `json:"median_us,omitempty"`
	P99US    float64 `json:"p99_us,omitempty"`
	Samples  int     `json:"samples,omitempty"`
	// Of are the median's ratios to the medians of peers in the same table.
	Of Ratios `json:"of,omitempty"`
	// Parts and TailParts say where the median and the p99 went.
	Parts     []Part `json:"parts,omitempty"`
	TailParts []Part `json:"tail_parts,omitempty"`
	// Skipped is why there is no figure.
	Skipped string `json:"skipped,omitempty"`
}

// Ratios are by the name of who a figure is compared with.
type Ratios map[string]float64

// NewRow is the row of samples.
func NewRow(name string, samples []Sample) Row {
	times := make([]time.Duration, len(samples))
	for i, s := range samples {
		times[i] = s.First
	}
	row := RowOf(name, times)
	row.Parts = partsOf(combine(samples, Median[time.Duration]), MedianUS, false)
	row.TailParts = partsOf(tail(samples), MedianUS, false)
	return row
}

// RowOf is the row of times of which no parts are known. It orders them.
func RowOf(name string, times []time.Duration) Row {
	slices.Sort(times)
	at := func(q float64) float64 { return Micros(Quantile(times, q)) }
	return Row{Name: name, MinUS: at(0), P10US: at(0.1), MedianUS: at(0.5), P99US: at(0.99), Samples: len(times)}
}

// Pauses is the row of how long the sources of samples stood still.
func Pauses(name string, samples []Sample) Row {
	var times []time.Duration
	for _, s := range samples {
		if s.Pause > 0 {
			times = append(times, s.Pause)
		}
	}
	if len(times) == 0 {
		return Row{Name: name, Skipped: "the driver does not say"}
	}
	return RowOf(name, times)
}

// Find gives the row of a name, or an empty one.
func Find(rows []Row, name string) Row {
	for _, row := range rows {
		if row.Name == name {
			return row
		}
	}
	return Row{}
}

// CompareRows fills in the ratios to peers.
func CompareRows(rows []Row, peers ...string) {
	Compare(rows, peers, func(r *Row) (string, float64, *Ratios) { return r.Name, r.MedianUS, &r.Of })
}

// Compare fills in the ratios of any rows to peers among them. See gives a row's
// name, its figure and where its ratios go.
func Compare[R any](rows []R, peers []string, see func(*R) (string, float64, *Ratios)) {
	known := map[string]float64{}
	for i := range rows {
		name, value, _ := see(&rows[i])
		known[name] = value
	}
	for i := range rows {
		_, value, ratios := see(&rows[i])
		for _, peer := range peers {
			if ratio := Of(value, known[peer]); ratio > 0 {
				if *ratios == nil {
					*ratios = Ratios{}
				}
				(*ratios)[peer] = ratio
			}
		}
	}
}
