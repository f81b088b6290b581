package run

import (
	"cmp"
	"maps"
	"math"
	"math/rand/v2"
	"slices"

	"aether/lab"
)

const (
	// Alpha is how unlikely a difference has to be by chance to be called a change, after
	// Holm's correction for as many figures as are compared.
	Alpha = 0.01
	// leastRatio is how far medians have to be apart besides: less matters to nobody.
	leastRatio = 1.05
	// fewest is how many samples a figure needs in both runs to be compared.
	fewest = 5
)

// Comparison is what changed from one run to another.
type Comparison struct {
	A string `json:"a"`
	B string `json:"b"`
	// Changes are of every figure that both runs have enough samples of, those that changed
	// first.
	Changes []Change `json:"changes"`
	// Alarms is what the same test finds within each run, where nothing changed.
	Alarms FalseAlarms `json:"false_alarms"`
	// Scores are those that differ.
	Scores []ScoreChange `json:"scores"`
	// Agreement is whether both tell the same of the systems.
	Agreement Agreement `json:"agreement"`
	// Uncompared is how many figures had too few samples, or were in one run only.
	Uncompared int `json:"uncompared"`
}

// Change is of one figure.
type Change struct {
	System string  `json:"system"`
	Axis   string  `json:"axis"`
	Figure string  `json:"figure"`
	At     float64 `json:"at,omitempty"`
	Unit   Unit    `json:"unit"`
	A      float64 `json:"a"` // the median there
	B      float64 `json:"b"`
	// P is how likely such a difference is by chance.
	P float64 `json:"p"`
	// Changed says that it is beyond noise.
	Changed bool `json:"changed"`
}

// FalseAlarms is the share of figures that the test calls changed between halves of one
// run, which are the same by nature.
type FalseAlarms struct {
	// Shuffled is for halves by lot: the error of the test itself. InTime is for the first
	// and the last half: what the host's drift adds during a run.
	Shuffled float64 `json:"shuffled"`
	InTime   float64 `json:"in_time"`
	// Tries is how many pairs of halves were compared for each.
	Tries       int `json:"tries"`
	TriesInTime int `json:"tries_in_time"`
}

// ScoreChange is a score that differs.
type ScoreChange struct {
	System string  `json:"system"`
	Axis   string  `json:"axis"`
	A      float64 `json:"a"`
	B      float64 `json:"b"`
}

type figureKey struct {
	system, axis, figure string
	at                   float64
}

// values are the samples of all figures of records, in the order in which they were taken.
func values(records []Record) (map[figureKey][]float64, map[figureKey]Unit) {
	list, units := map[figureKey][]float64{}, map[figureKey]Unit{}
	for _, r := range records {
		if r.Kind == Sampled {
			key := figureKey{r.System, r.Axis, r.Figure, r.At}
			list[key] = append(list[key], r.Value)
			units[key] = r.Unit
		}
	}
	return list, units
}

// Compare tells what changed from run a to run b beyond noise, by their records.
func Compare(a, b []Record) (c Comparison, err error) {
	runs := [2]Run{}
	for i, records := range [][]Record{a, b} {
		if runs[i], err = summarize(records); err != nil {
			return c, err
		}
	}
	c = Comparison{A: runs[0].ID, B: runs[1].ID, Changes: []Change{}, Scores: []ScoreChange{}}
	of, units := values(a)
	with, _ := values(b)
	for key, list := range of {
		other := with[key]
		if len(list) < fewest || len(other) < fewest {
			c.Uncompared++
			continue
		}
		c.Changes = append(c.Changes, Change{System: key.system, Axis: key.axis, Figure: key.figure, At: key.at, Unit: units[key],
			A: lab.Median(list), B: lab.Median(other), P: lab.RankSum(list, other)})
	}
	for key := range with {
		if of[key] == nil {
			c.Uncompared++
		}
	}
	decide(c.Changes)
	c.Alarms = falseAlarms([]map[figureKey][]float64{of, with})
	c.Scores = append(c.Scores, scoreChanges(runs[0], runs[1])...)
	c.Agreement = agreementOf(runs[0], runs[1])
	return c, nil
}

// decide tells changes from noise, by Holm's method: the least likely of n must be below
// alpha/n, the next below alpha/(n-1) and so on; behind the first that is not, nothing is
// a change.
func decide(list []Change) {
	slices.SortFunc(list, func(a, b Change) int {
		return cmp.Or(cmp.Compare(a.P, b.P), cmp.Compare(a.System, b.System), cmp.Compare(a.Axis, b.Axis), cmp.Compare(a.Figure, b.Figure), cmp.Compare(a.At, b.At))
	})
	for i := range list {
		if list[i].P > Alpha/float64(len(list)-i) {
			return
		}
		list[i].Changed = apart(list[i].A, list[i].B)
	}
}

// apart says whether two medians differ by more than matters to nobody.
func apart(a, b float64) bool {
	if a <= 0 || b <= 0 {
		return a != b
	}
	return math.Abs(math.Log(a/b)) > math.Log(leastRatio)
}

// shuffles is how often each figure is split by lot.
const shuffles = 200

// falseAlarms compares halves of the same runs, each at Alpha alone: Holm's correction
// would only make them fewer.
func falseAlarms(runs []map[figureKey][]float64) (f FalseAlarms) {
	random := rand.New(rand.NewPCG(1, 1)) // the same runs have the same answer
	alarms, inTime := 0, 0
	for _, figures := range runs {
		keys := slices.SortedFunc(maps.Keys(figures), compareKeys)
		for _, key := range keys {
			list := figures[key]
			if len(list) < 2*fewest {
				continue
			}
			half := len(list) / 2
			f.TriesInTime++
			if alarm(list[:half], list[half:]) {
				inTime++
			}
			lot := slices.Clone(list)
			for range shuffles {
				random.Shuffle(len(lot), func(i, j int) { lot[i], lot[j] = lot[j], lot[i] })
				f.Tries++
				if alarm(lot[:half], lot[half:]) {
					alarms++
				}
			}
		}
	}
	f.Shuffled, f.InTime = lab.Of(float64(alarms), float64(f.Tries)), lab.Of(float64(inTime), float64(f.TriesInTime))
	return f
}

func alarm(a, b []float64) bool {
	return lab.RankSum(a, b) < Alpha && apart(lab.Median(a), lab.Median(b))
}

func compareKeys(a, b figureKey) int {
	return cmp.Or(cmp.Compare(a.system, b.system), cmp.Compare(a.axis, b.axis), cmp.Compare(a.figure, b.figure), cmp.Compare(a.at, b.at))
}

// scoreChanges are scores that both runs have and that differ by a hundredth or more.
func scoreChanges(a, b Run) (list []ScoreChange) {
	for _, s := range a.Results {
		other, err := b.System(s.System)
		if err != nil {
			continue // it is in one run only
		}
		for _, axis := range s.Axes {
			to := other.Axis(axis.Axis)
			if axis.Score == nil || to == nil || to.Score == nil || math.Abs(*axis.Score-*to.Score) < 0.005 {
				continue
			}
			list = append(list, ScoreChange{s.System, axis.Axis, *axis.Score, *to.Score})
		}
	}
	return list
}
