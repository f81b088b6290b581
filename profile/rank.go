package profile

import (
	"cmp"
	"slices"
)

// Rank orders profiles by fitness, best first; ties keep the canonical order,
// whatever the order given.
func Rank(profiles []Profile) []Profile { return RankBy(ByFitness, profiles) }

// RankBy is Rank by another measure.
func RankBy(m Measure, profiles []Profile) []Profile { return rank(profiles, m.of) }

// RankWeighted is Rank by the weighted fitness.
func RankWeighted(w Weights, profiles []Profile) []Profile { return rank(profiles, w.Fitness) }

func rank(profiles []Profile, key func(Profile) float64) []Profile {
	ranked := slices.Clone(profiles)
	slices.SortFunc(ranked, func(a, b Profile) int {
		return cmp.Or(cmp.Compare(key(b), key(a)), cmp.Compare(a.System, b.System))
	})
	return ranked
}
