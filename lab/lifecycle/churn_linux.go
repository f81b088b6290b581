package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"aether/lab"
)

const (
	churnSlices = 3
	churnSlice  = 1500 * time.Millisecond
)

// measureChurn counts whole lives of sandboxes in a second, on as many workers
// as there are cores, in slices that the systems take in turn.
func (f *field) measureChurn(ctx context.Context) ([]Rate, error) {
	f.say.Say("churn: %d slices of %v of %d systems", churnSlices, churnSlice, len(f.entries))
	rates := make([][]float64, len(f.entries))
	samples := make([][]lab.Sample, len(f.entries))
	for range churnSlices {
		for i, e := range f.entries {
			lives, perSecond, err := churn(ctx, e.contender)
			if err != nil {
				return nil, fmt.Errorf("%s: churn: %w", e.name, err)
			}
			rates[i] = append(rates[i], perSecond)
			samples[i] = append(samples[i], lives...)
		}
	}
	rows := make([]Rate, len(f.entries))
	for i, e := range f.entries {
		rows[i] = Rate{Name: e.name, PerSecond: lab.Median(rates[i]), WorstRate: slices.Min(rates[i]), Parts: lab.Means(samples[i])}
	}
	lab.Compare(rows, peers, func(r *Rate) (string, float64, *lab.Ratios) { return r.Name, r.PerSecond, &r.Of })
	return rows, nil
}

// churn is one slice. The lives that have begun at its end are finished and
// counted, in the time that they took.
func churn(ctx context.Context, c contender) (lives []lab.Sample, perSecond float64, err error) {
	var mu sync.Mutex
	var workers sync.WaitGroup
	start := time.Now()
	for range runtime.NumCPU() {
		workers.Go(func() {
			done, failed := churnUntil(ctx, c, start.Add(churnSlice))
			mu.Lock()
			defer mu.Unlock()
			lives = append(lives, done...)
			err = errors.Join(err, failed)
		})
	}
	workers.Wait()
	return lives, float64(len(lives)) / time.Since(start).Seconds(), err
}

func churnUntil(ctx context.Context, c contender, end time.Time) (lives []lab.Sample, err error) {
	for time.Now().Before(end) {
		if ctx.Err() != nil {
			return lives, ctx.Err()
		}
		life, err := c.cold(ctx)
		if err != nil {
			return lives, err
		}
		lives = append(lives, life)
	}
	return lives, nil
}
