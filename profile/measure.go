package profile

import "strings"

// Measure is a number of a profile that can be sorted by and asked for: the
// fitness, which is the zero value, or the score on one axis.
type Measure int

// ByFitness is the measure of the unweighted mean.
const ByFitness Measure = 0

// By is the measure of one axis.
func By(a Axis) Measure { return Measure(a) + 1 }

// ParseMeasure reads "fitness" or the name of an axis, in any case. Errors:
// Invalid, wrapping an UnknownError.
func ParseMeasure(s string) (Measure, error) {
	if strings.EqualFold(s, ByFitness.String()) {
		return ByFitness, nil
	}
	a, err := ParseAxis(s)
	if err != nil {
		return 0, unknown("axis", s, MeasureNames(), axisSpellings())
	}
	return By(a), nil
}

// MeasureNames lists what ParseMeasure reads.
func MeasureNames() []string { return append(axisNames(), ByFitness.String()) }

func (m Measure) String() string {
	if m == ByFitness {
		return "fitness"
	}
	return Axis(m - 1).String()
}

// of is the measure's number for a profile.
func (m Measure) of(p Profile) float64 {
	if m == ByFitness {
		return p.Fitness.Float()
	}
	return p.Score(Axis(m - 1)).Float()
}
