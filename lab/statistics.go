package lab

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// Quantile is the nearest-rank one: a value that was really measured.
func Quantile[T any](sorted []T, q float64) T { return sorted[rank(len(sorted), q)] }

func rank(n int, q float64) int { return max(0, int(math.Ceil(q*float64(n)))-1) }

// Micros is a time in microseconds.
func Micros(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 }

// Of is zero, and so absent, where there is nothing to compare with.
func Of(value, other float64) float64 {
	if other == 0 {
		return 0
	}
	return value / other
}

// Median is the middle of a list, which stays as it is.
func Median[T cmp.Ordered](list []T) T { return Quantile(slices.Sorted(slices.Values(list)), 0.5) }

// Spread is the median distance from the median.
func Spread(values []float64) float64 {
	middle := Median(values)
	away := make([]float64, len(values))
	for i, v := range values {
		away[i] = math.Abs(v - middle)
	}
	return Median(away)
}

// Mean is the average of a list.
func Mean(list []time.Duration) time.Duration {
	var sum time.Duration
	for _, d := range list {
		sum += d
	}
	return sum / time.Duration(len(list))
}

// combine makes one lap of all laps of a name, in the order in which they came.
func combine(samples []Sample, one func([]time.Duration) time.Duration) []Lap {
	var order []Lap
	took := map[string][]time.Duration{}
	for _, s := range samples {
		for _, l := range s.Laps {
			if took[l.Name] == nil {
				order = append(order, l)
			}
			took[l.Name] = append(took[l.Name], l.Took)
		}
	}
	for i := range order {
		order[i].Took = one(took[order[i].Name])
	}
	return order
}

// tail are the laps of the very sample that is the p99.
func tail(samples []Sample) []Lap {
	sorted := slices.SortedFunc(slices.Values(samples), func(a, b Sample) int { return int(a.First - b.First) })
	return sorted[rank(len(sorted), 0.99)].Laps
}
