package lab

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// TestRoundsAreFair: everybody has as many turns, those who are skipped have none,
// and those of the warm-up do not count.
func TestRoundsAreFair(t *testing.T) {
	turns := map[string]int{}
	taker := func(name string) Contender {
		return Contender{Name: name, Take: func(context.Context) (Sample, error) { turns[name]++; return Sample{First: time.Millisecond}, nil }}
	}
	rows, err := Rounds{Count: 5, Warmup: 2}.Rows(t.Context(), []Contender{taker("a"), Skip("b", errors.New("not here")), taker("c")})
	if err != nil || turns["a"] != 7 || turns["c"] != 7 || len(rows) != 3 || rows[0].Samples != 5 || rows[1].Skipped != "not here" {
		t.Errorf("%v, %+v, %v", turns, rows, err)
	}
}

func TestRoundsEnd(t *testing.T) {
	bad := Contender{Name: "bad", Take: func(context.Context) (Sample, error) { return Sample{}, errors.New("broken") }}
	if _, err := (Rounds{Count: 1}).Rows(t.Context(), []Contender{bad}); err == nil {
		t.Error("a failure is not told")
	}
	slow := Contender{Name: "slow", Take: func(ctx context.Context) (Sample, error) { <-ctx.Done(); return Sample{}, ctx.Err() }}
	if tried := (Rounds{Patience: time.Millisecond}).Try(t.Context(), slow); tried.Skipped == "" {
		t.Error("a turn has no end")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := (Rounds{Count: 1}).Rows(ctx, []Contender{bad}); !errors.Is(err, context.Canceled) {
		t.Errorf("it goes on: %v", err)
	}
}

func TestRoundsGoOnWithoutTheOneThatFails(t *testing.T) { synctest.Test(t, testRoundsGoOn) }

// testRoundsGoOn has time of its own: budgets are about nothing but what contenders take.
func testRoundsGoOn(t *testing.T) {
	var failed []int
	seen := map[int]int{}
	take := func(took time.Duration) func(context.Context) (Sample, error) {
		return func(context.Context) (Sample, error) { time.Sleep(took); return Sample{First: took}, nil }
	}
	r := Rounds{Count: 6, Warmup: 1, Budget: 100 * time.Millisecond,
		Seen:   func(i, _ int, _ Sample) error { seen[i]++; return nil },
		Failed: func(i int, _ error) error { failed = append(failed, i); return nil }}
	_, err := r.Measure(t.Context(), []Contender{
		{Name: "fast", Take: take(0)}, {Name: "slow", Take: take(35 * time.Millisecond)}, {Name: "asked for two", Take: take(0), Turns: 2},
		{Name: "very slow", Take: take(160 * time.Millisecond)},
		{Name: "bad", Take: func(context.Context) (Sample, error) { return Sample{}, errors.New("broken") }}})
	if err != nil || seen[0] != 6 || seen[1] != fewTurns || seen[2] != 2 || seen[3] != 1 || seen[4] != 0 || len(failed) != 1 || failed[0] != 4 {
		t.Errorf("%v, %v, %v", seen, failed, err)
	}
}
