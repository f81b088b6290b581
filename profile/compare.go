package profile

import (
	"fmt"
	"strings"
)

// Comparison is how much better one system fits than another; positive means
// that A fits better. Its JSON form is stable.
type Comparison struct {
	A            System      `json:"a"`
	B            System      `json:"b"`
	FitnessDelta Fitness     `json:"fitness_delta"`
	AxisDeltas   []AxisDelta `json:"axis_deltas"`
}

// AxisDelta is the difference on one axis.
type AxisDelta struct {
	Axis  Axis  `json:"axis"`
	Delta Score `json:"delta"`
}

// Compare judges a against b.
func Compare(a, b System) Comparison {
	pa, pb := a.Profile(), b.Profile()
	c := Comparison{A: a, B: b, FitnessDelta: pa.Fitness - pb.Fitness}
	for _, axis := range Axes() {
		c.AxisDeltas = append(c.AxisDeltas, AxisDelta{axis, pa.Score(axis) - pb.Score(axis)})
	}
	return c
}

// String is a line for the fitness and one, indented, for each axis.
func (c Comparison) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s vs %s: fitness delta %s", c.A, c.B, c.FitnessDelta.Signed())
	for _, d := range c.AxisDeltas {
		fmt.Fprintf(&b, "\n  %s: %s", d.Axis, d.Delta.Signed())
	}
	return b.String()
}
