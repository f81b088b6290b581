package engine

import (
	"context"
	"time"
)

// SweepAfter sets how soon the contents of removed checkpoints are removed, for all
// engines.
func SweepAfter(d time.Duration) { sweepAfter = d }

// HomeWait sets how long pruning waits for sandboxes that are being changed, until back is
// called.
func HomeWait(d time.Duration) (back func()) {
	was := homeWait
	homeWait = d
	return func() { homeWait = was }
}

// BeforeWrite has a function called before every change of the state directory, which
// is not made if it fails.
func (o Options) BeforeWrite(before func() error) Options {
	o.beforeWrite = before
	return o
}

// KeepBudget does what is done from time to time when the engine has a budget of disk.
func (e *Engine) KeepBudget(ctx context.Context) error { return e.fleet.pruneOverBudget(ctx) }

// SecretValue is what the engine itself is given of a secret.
func (e *Engine) SecretValue(tenant, name string) (SecretValue, []string, error) {
	return e.fleet.secretValue(tenant, name)
}
