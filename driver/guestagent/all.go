package guestagent

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"

	"aether/driver/lifetime"
	"aether/sandbox"
)

// MakeAll makes one sandbox for each Spec, side by side: all of them or none, also
// where the caller has given up meanwhile.
func MakeAll(ctx context.Context, specs []sandbox.Spec, one func(sandbox.Spec) (sandbox.Instance, error)) ([]sandbox.Instance, error) {
	list, errs := make([]sandbox.Instance, len(specs)), make([]error, len(specs))
	var work sync.WaitGroup
	for n, spec := range specs {
		work.Go(func() {
			i, err := one(spec)
			if errs[n] = err; err == nil {
				list[n] = i
			}
		})
	}
	work.Wait()
	err := errors.Join(errs...)
	if err == nil {
		return list, nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lifetime.CleanupTime)
	defer cancel()
	for _, i := range list {
		if i != nil {
			err = errors.Join(err, i.Destroy(ctx))
		}
	}
	return nil, err
}

// Discard removes what sandboxes were made from. They live, whether or not it could be
// removed: that is told to log, of which nil means slog.Default().
func Discard(log *slog.Logger, what string, remove func() error) {
	if err := remove(); err != nil {
		cmp.Or(log, slog.Default()).Error(what, "err", err)
	}
}
