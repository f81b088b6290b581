package profile

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"aether/sandbox"
)

// Weights say how much each axis counts for a workload. An axis without one
// counts 1; a weight of 0 ignores its axis.
type Weights map[Axis]float64

// ParseWeights reads a list such as "isolation=3,start-latency=2". Errors:
// Invalid, naming the weight at fault.
func ParseWeights(s string) (Weights, error) {
	w := Weights{}
	for part := range strings.SplitSeq(s, ",") {
		if err := w.add(part); err != nil {
			return nil, err
		}
	}
	if err := w.Validate(); err != nil {
		return nil, err
	}
	return w, nil
}

func (w Weights) add(part string) error {
	name, value, ok := strings.Cut(part, "=")
	if !ok {
		return weightError("%.60q is not AXIS=NUMBER", part)
	}
	axis, err := ParseAxis(strings.TrimSpace(name))
	if err != nil {
		return &sandbox.Error{Class: sandbox.Invalid, Field: "weight", Err: err}
	}
	if _, twice := w[axis]; twice {
		return weightError("%s is weighted twice", axis)
	}
	w[axis], err = strconv.ParseFloat(strings.TrimSpace(value), 64)
	if err != nil {
		return weightError("%.60q of %s is not a number", value, axis)
	}
	return nil
}

// Validate checks that every weight is finite and not negative and that some
// axis counts.
func (w Weights) Validate() error {
	for _, a := range Axes() {
		if v := w.of(a); v < 0 || math.IsNaN(v) || math.IsInf(v, 0) {
			return weightError("%v of %s is not a finite number of 0 or more", v, a)
		}
	}
	if w.heaviest() == 0 {
		return weightError("every axis weighs 0, so nothing is left to rank by")
	}
	return nil
}

func weightError(format string, args ...any) *sandbox.Error {
	err := sandbox.Invalidf("weight", format, args...)
	err.Remedy = "as isolation=3,start-latency=2"
	return err
}

func (w Weights) of(a Axis) float64 {
	if v, ok := w[a]; ok {
		return v
	}
	return 1
}

func (w Weights) heaviest() float64 {
	heaviest := 0.0
	for _, a := range Axes() {
		heaviest = max(heaviest, w.of(a))
	}
	return heaviest
}

// Fitness is the weighted mean of a profile's scores. The weights must be valid.
func (w Weights) Fitness(p Profile) float64 {
	// Only the proportions matter; scaling keeps huge weights from overflowing.
	scale := w.heaviest()
	var sum, total float64
	for _, a := range Axes() {
		share := w.of(a) / scale
		sum += share * float64(p.Score(a))
		total += share
	}
	// Millionths, so that floating-point dust never decides a tie.
	return math.Round(sum/total*1e4) / 1e6
}

// ByDesign is whether a profile's weighted mean counts any score that is given by
// design. Without weights that is whether its fitness does.
func (w Weights) ByDesign(p Profile) bool {
	return slices.ContainsFunc(p.ByDesign, func(a Axis) bool { return w.of(a) > 0 })
}
