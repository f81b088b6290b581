package report

import (
	"math"

	"aether/lab/run"
)

// scale maps values onto a length, by their logarithm: what is measured here differs by
// powers of ten.
type scale struct{ low, high, from, to float64 }

// stepOf is the factor between two values that an axis names: people count bytes in powers
// of two.
func stepOf(unit run.Unit) float64 {
	if unit == run.KiB {
		return 4
	}
	return 10
}

// scaleOf covers values with whole powers of their unit's step.
func scaleOf(values []float64, unit run.Unit, from, to float64) scale {
	low, high := math.Inf(1), math.Inf(-1)
	for _, v := range values {
		if v > 0 {
			low, high = min(low, v), max(high, v)
		}
	}
	step := stepOf(unit)
	if low > high {
		low, high = 1, step
	}
	low, high = math.Pow(step, math.Floor(math.Log(low)/math.Log(step))), math.Pow(step, math.Ceil(math.Log(high)/math.Log(step)))
	if low == high {
		high *= step
	}
	return scale{low, high, from, to}
}

func (s scale) at(v float64) float64 {
	v = min(max(v, s.low), s.high)
	return s.from + (s.to-s.from)*math.Log(v/s.low)/math.Log(s.high/s.low)
}

// tick is a value that an axis names.
type tick struct {
	At   float64
	Text string
}

// ticks are the powers of the unit's step.
func (s scale) ticks(unit run.Unit) (list []tick) {
	for v := s.low; v <= s.high*1.0001; v *= stepOf(unit) {
		list = append(list, tick{s.at(v), valueText(v, unit)})
	}
	return list
}
