package guestagent

import (
	"context"
	"errors"
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
