package run

import (
	"slices"

	"aether/lab"
)

// figureOf is what samples of one name and place say; there is at least one.
func figureOf(samples []Record) Figure {
	first := samples[0]
	f := Figure{Figure: first.Figure, At: first.At, Unit: first.Unit, Samples: len(samples)}
	values := make([]float64, len(samples))
	for i, s := range samples {
		values[i] = s.Value
		f.Lines = append(f.Lines, s.Line)
	}
	slices.Sort(values)
	at := func(q float64) float64 { return lab.Quantile(values, q) }
	f.Min, f.P10, f.Median, f.P90, f.P99, f.Max = at(0), at(0.1), at(0.5), at(0.9), at(0.99), at(1)
	f.Spread = lab.Spread(values)
	f.Parts = partsOf(samples)
	return f
}

// partsOf are the medians of parts by name, in the order in which they came.
func partsOf(samples []Record) []Part {
	var order []Part
	values := map[string][]float64{}
	for _, s := range samples {
		for _, p := range s.Parts {
			if values[p.Name] == nil {
				order = append(order, p)
			}
			values[p.Name] = append(values[p.Name], p.Value)
		}
	}
	for i, p := range order {
		order[i].Value = lab.Median(values[p.Name])
	}
	return order
}
