package lab

import (
	"math"
	"math/rand/v2"
	"testing"
)

func TestRankSum(t *testing.T) {
	for _, c := range []struct {
		name string
		a, b []float64
		want float64
	}{
		{"apart", []float64{1, 2, 3, 4, 5, 6, 7}, []float64{11, 12, 13, 14, 15, 16, 17}, 0.0022},
		{"the same", []float64{1, 2, 3}, []float64{1, 2, 3}, 1},
		{"all tied", []float64{5, 5}, []float64{5, 5, 5}, 1},
		{"nothing", nil, []float64{1}, 1},
		{"ties", []float64{1, 2, 2, 3}, []float64{2, 3, 4, 5}, 0.1367},
	} {
		got, back := RankSum(c.a, c.b), RankSum(c.b, c.a)
		if math.Abs(got-c.want) > 0.0005 || math.Abs(got-back) > 1e-12 {
			t.Errorf("%s: %.4f and %.4f, want %.4f", c.name, got, back, c.want)
		}
	}
}

// TestRankSumFalseAlarms: of lists from one distribution, whatever it is, a share of alpha
// is told apart, and hardly more.
func TestRankSumFalseAlarms(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	const tries, alpha = 4000, 0.01
	alarms := 0
	for range tries {
		list := make([]float64, 40)
		for i := range list {
			list[i] = math.Exp(2 * random.NormFloat64())
		}
		if RankSum(list[:20], list[20:]) < alpha {
			alarms++
		}
	}
	if share := float64(alarms) / tries; share > 2*alpha || share == 0 {
		t.Errorf("%.4f are false alarms", share)
	}
}
