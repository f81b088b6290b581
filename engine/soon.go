package engine

import (
	"context"
	"errors"
	"time"

	"aether/sandbox"
)

const (
	firstWait = time.Millisecond
	lastWait  = time.Second
)

// soon tries again for a while where that may help: a process that ends while it is read
// makes its driver give up on a snapshot or a fork, and leave nothing.
func soon(ctx context.Context, do func() error) error {
	for wait := firstWait; ; wait *= 2 {
		err := do()
		var refusal *sandbox.Error
		if !errors.As(err, &refusal) || refusal.Class != sandbox.Conflict || !refusal.Retry || wait > lastWait {
			return err
		}
		select {
		case <-ctx.Done():
			return errors.Join(err, ctx.Err())
		case <-time.After(wait):
		}
	}
}
