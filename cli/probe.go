package cli

import (
	"context"
	"sync"
	"time"

	"aether/sandbox"
)

// probeTime is how long a driver may take to say whether it can run.
const probeTime = 2 * time.Second

// probeAll asks every driver at once and answers in their order. A driver that
// does not answer in time is reported as unusable, whatever it hangs on.
func probeAll(ctx context.Context, drivers []sandbox.Driver) []sandbox.Report {
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	reports := make([]sandbox.Report, len(drivers))
	var all sync.WaitGroup
	for i, d := range drivers {
		all.Go(func() { reports[i] = probe(ctx, d) })
	}
	all.Wait()
	return reports
}

func probe(ctx context.Context, d sandbox.Driver) sandbox.Report {
	answer := make(chan sandbox.Report, 1)
	go func() { answer <- d.Probe(ctx) }()
	select {
	case r := <-answer:
		return r
	case <-ctx.Done():
		return sandbox.Report{Reason: "its probe did not answer: " + ctx.Err().Error()}
	}
}
