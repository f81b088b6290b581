package report

import (
	"cmp"
	"fmt"
	"slices"

	"aether/lab/run"
	"aether/profile"
)

// Sizes of the strips of latencies, in units of the picture.
const (
	wide    = 960.0
	labels  = 150.0 // for the names of systems, on the left
	margin  = 110.0 // for medians, on the right
	rowHigh = 18.0
	headed  = 26.0 // for the scale, on top
)

// strips is a picture: a strip of samples for each system and way of starting.
type strips struct {
	Title  string
	High   float64
	Ticks  []tick
	Rows   []strip
	Ways   []string
	Footed float64
}

type strip struct {
	System string // only on a system's first
	Way    string
	Link   string
	Y      float64
	P10    float64
	P90    float64
	Median float64
	Text   string // the median, for people
	Right  float64
	Dots   []dot
}

type dot struct {
	X    float64
	Line int
	Text string
}

// ways are those of starting, in the order in which they are shown.
var ways = []string{run.Cold, run.Restore, run.Fork, run.Claim}

// latency draws the distributions, a picture for each number of starts at once.
func latency(systems []run.System, records []run.Record) (pictures []strips) {
	values := map[int]run.Record{}
	for _, r := range records {
		if r.Kind == run.Sampled {
			values[r.Line] = r
		}
	}
	var places, all []float64
	for _, s := range systems {
		if a := s.Axis(profile.StartLatency.String()); a != nil {
			for _, f := range a.Figures {
				places = append(places, f.At)
				all = append(all, f.Min, f.Max)
			}
		}
	}
	slices.Sort(places)
	across := scaleOf(all, run.Microseconds, labels, wide-margin) // the same for all pictures
	for _, at := range slices.Compact(places) {
		p := strips{Title: fmt.Sprintf("%v starts at once", at), Ticks: across.ticks(run.Microseconds)}
		if at == 1 {
			p.Title = "One start at a time"
		}
		y := headed
		for _, s := range fastestFirst(systems, at) {
			y += 6
			name := s.System
			for _, way := range ways {
				f := s.Axis(profile.StartLatency.String()).Figure(way, at)
				if f == nil {
					continue
				}
				row := strip{System: name, Way: way, Link: rawLink(s.System, profile.StartLatency.String(), *f), Y: y + rowHigh/2,
					P10: across.at(f.P10), P90: across.at(f.P90), Median: across.at(f.Median), Text: valueText(f.Median, f.Unit), Right: wide - margin + 8}
				for _, line := range f.Lines {
					v := values[line].Value
					row.Dots = append(row.Dots, dot{across.at(v), line, fmt.Sprintf("%s, %s: %s (record %d)", s.System, way, valueText(v, f.Unit), line)})
				}
				if !slices.Contains(p.Ways, way) {
					p.Ways = append(p.Ways, way)
				}
				p.Rows = append(p.Rows, row)
				name = ""
				y += rowHigh
			}
		}
		p.Footed, p.High = y+4, y+8
		if len(p.Rows) > 0 {
			pictures = append(pictures, p)
		}
	}
	return pictures
}

// fastestFirst are the systems with start latencies at a place, by that of a cold start.
func fastestFirst(systems []run.System, at float64) (list []run.System) {
	cold := func(s run.System) float64 {
		if f := s.Axis(profile.StartLatency.String()).Figure(run.Cold, at); f != nil {
			return f.Median
		}
		return 1e18
	}
	for _, s := range systems {
		if s.Axis(profile.StartLatency.String()) != nil {
			list = append(list, s)
		}
	}
	slices.SortStableFunc(list, func(a, b run.System) int { return cmp.Compare(cold(a), cold(b)) })
	return list
}
