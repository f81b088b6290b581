package lab

import (
	"cmp"
	"math"
	"slices"
)

// RankSum is the Mann-Whitney test of two lists: how likely ranks as far apart as theirs
// are if both come from the same distribution, two-sided, by the normal approximation with
// a correction for ties and for continuity. It asks nothing of the distribution. It is 1
// where a list is empty or all values are the same.
func RankSum(a, b []float64) float64 {
	type value struct {
		of   float64
		ours bool
	}
	var all []value
	for _, v := range a {
		all = append(all, value{v, true})
	}
	for _, v := range b {
		all = append(all, value{v, false})
	}
	slices.SortFunc(all, func(x, y value) int { return cmp.Compare(x.of, y.of) })
	n, m := float64(len(a)), float64(len(b))
	total := n + m
	var ranks, ties float64
	for i := 0; i < len(all); {
		j := i
		for j < len(all) && all[j].of == all[i].of {
			j++
		}
		tied := float64(j - i)
		ties += tied*tied*tied - tied
		for _, v := range all[i:j] {
			if v.ours {
				ranks += float64(i+j+1) / 2
			}
		}
		i = j
	}
	variance := n * m / 12 * (total + 1 - ties/(total*(total-1)))
	if n == 0 || m == 0 || !(variance > 0) {
		return 1
	}
	away := max(0, math.Abs(ranks-n*(n+1)/2-n*m/2)-0.5)
	return math.Erfc(away / math.Sqrt(variance) / math.Sqrt2)
}
