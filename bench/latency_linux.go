package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

const (
	// warmup rounds fill caches and are not counted.
	warmup = 3
	// breath lets what the kernel removes after a sandbox's end settle, so that
	// it is not charged to whoever comes next.
	breath = 5 * time.Millisecond
)

// measureCold is the time from nothing to the first byte.
func (f *field) measureCold(ctx context.Context) ([]latency, error) {
	turns := make([]turn, len(f.entries))
	for i, e := range f.entries {
		turns[i] = turn{e.name, e.cold}
	}
	f.say("cold spawn: %d rounds of %d systems", f.opts.rounds, len(turns))
	return f.interleave(ctx, turns)
}

// measureExec is the time from the call to the first byte of a program in a
// sandbox that lives already.
func (f *field) measureExec(ctx context.Context) (rows []latency, err error) {
	var turns []turn
	var skipped []latency
	for _, e := range f.distinct() {
		sandbox, failed := e.live(ctx)
		if failed != nil {
			return nil, fmt.Errorf("%s: live: %w", e.name, failed)
		}
		defer func() { err = errors.Join(err, sandbox.end()) }()
		if _, failed := sandbox.exec(ctx); failed != nil {
			skipped = append(skipped, latency{System: e.name, Skipped: failed.Error()})
			continue
		}
		turns = append(turns, turn{e.name, sandbox.exec})
	}
	f.say("exec: %d rounds of %d systems", f.opts.rounds, len(turns))
	rows, err = f.interleave(ctx, turns)
	return append(rows, skipped...), err
}

// turn is what one system does in each round.
type turn struct {
	name string
	take func(context.Context) (sample, error)
}

// interleave gives every system its turn in each round, in an order that
// changes, so that whatever the host does meanwhile falls on all alike.
func (f *field) interleave(ctx context.Context, turns []turn) ([]latency, error) {
	samples := make([][]sample, len(turns))
	for round := range warmup + f.opts.rounds {
		for _, i := range rand.Perm(len(turns)) {
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			s, err := turns[i].take(ctx)
			if err != nil {
				return nil, fmt.Errorf("%s: round %d: %w", turns[i].name, round, err)
			}
			if round >= warmup {
				samples[i] = append(samples[i], s)
			}
			time.Sleep(breath)
		}
	}
	rows := make([]latency, len(turns))
	for i, t := range turns {
		rows[i] = newLatency(t.name, samples[i])
	}
	compare(rows, func(l latency) (string, float64) { return l.System, l.MedianUS }, func(l *latency) *ratios { return &l.ratios })
	return rows, nil
}
