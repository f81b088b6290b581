package engine

import (
	"context"
	"time"

	"aether/sandbox"
)

// resumeAtOnce is how many sandboxes are resumed at once when an engine begins.
const resumeAtOnce = 4

// resumeInterrupted resumes, in the background, what ran when the last engine was
// stopped. Who uses one of them before does not wait for the others.
func (f *fleet) resumeInterrupted() {
	waiting := make(chan *box, len(f.index.each()))
	for _, b := range f.index.each() {
		if b.record.Interrupted {
			waiting <- b
		}
	}
	close(waiting)
	for range min(resumeAtOnce, len(waiting)) {
		f.engine.watching.Go(func() {
			for b := range waiting {
				f.resumeOne(b)
			}
		})
	}
}

func (f *fleet) resumeOne(b *box) {
	ctx, release, err := f.engine.enter(context.Background())
	if err != nil {
		return // the engine is closed: the next one resumes it
	}
	defer release()
	done, err := b.take(ctx)
	if err != nil {
		return
	}
	defer done()
	if !b.copy().Interrupted {
		return // somebody has used it
	}
	if err := f.goOn(ctx, b); err != nil && ctx.Err() == nil {
		f.engine.log.Error("engine: a sandbox that ran when the engine was stopped cannot be resumed", "sandbox", b.id, "err", err)
		why := clip(err.Error(), maxDetail)
		if err := b.change(func(r *record) { r.Reason = why }); err != nil {
			f.engine.log.Error("engine: why could not be written", "sandbox", b.id, "err", err)
		}
	}
}

// goOn resumes a box that was interrupted, unless its time is over by now.
func (f *fleet) goOn(ctx context.Context, b *box) error {
	r := b.copy()
	switch over := !r.Expires.IsZero() && time.Now().After(r.Expires); {
	case !over:
		return f.resume(ctx, Caller{Operator: true}, b, "") // it ran before, whatever its tenant may have by now
	case r.Then == ThenPause || r.Then == ThenPauseFiles:
		return b.change(func(r *record) { r.Interrupted, r.Expires = false, time.Time{} })
	}
	return f.destroy(ctx, b, sandbox.Exit{Cause: sandbox.Expired, Detail: "while no engine ran"})
}
