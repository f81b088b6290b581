package profile

import (
	"fmt"
	"strconv"
)

// Score is a judgment from 0 to 1, or the difference of two, counted in
// hundredths so that sums and differences are exact.
type Score int

// MaxScore is the score 1.0.
const MaxScore Score = 100

// Float is the score as a number from 0 to 1.
func (s Score) Float() float64 { return float64(s) / 100 }

// String has two decimals, as "0.85".
func (s Score) String() string {
	if s < 0 {
		return "-" + (-s).String()
	}
	return fmt.Sprintf("%d.%02d", s/100, s%100)
}

// Signed is String with a sign always; no difference is "+0.00".
func (s Score) Signed() string {
	if s < 0 {
		return s.String()
	}
	return "+" + s.String()
}

// MarshalJSON writes a number, as 0.85.
func (s Score) MarshalJSON() ([]byte, error) { return number(s.Float()), nil }

// Fitness is the mean of the five scores, or the difference of two such means,
// counted in five-hundredths: it is the sum of the scores' hundredths.
type Fitness int

// Float is the fitness as a number from 0 to 1.
func (f Fitness) Float() float64 { return float64(f) / (100 * axisCount) }

// String has two decimals, rounded, as "0.82".
func (f Fitness) String() string { return f.rounded().String() }

// Signed is String with a sign always; what rounds to nothing is "+0.00".
func (f Fitness) Signed() string { return f.rounded().Signed() }

// rounded has no ties to decide: a fifth is never half a hundredth.
func (f Fitness) rounded() Score {
	if f < 0 {
		return -(-f).rounded()
	}
	return Score((f + axisCount/2) / axisCount)
}

// MarshalJSON writes an exact number, as 0.822.
func (f Fitness) MarshalJSON() ([]byte, error) { return number(f.Float()), nil }

// number writes the shortest text that reads back as the same float.
func number(f float64) []byte { return strconv.AppendFloat(nil, f, 'f', -1, 64) }
