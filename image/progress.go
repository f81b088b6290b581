package image

import (
	"context"
	"math"
	"sync"
)

// Progress is how far the fetching and unpacking of an image is. The zero value
// is what is known before the source has said which layers there are.
type Progress struct {
	// Layers is how many the image has, and Ready how many of them are stored.
	Ready, Layers int
	// Done and Total are bytes of the layers that the store lacked. They are
	// counted as they come from the source, so for compressed layers they are
	// compressed ones. Total is what the image says of itself, until checked.
	Done, Total int64
}

type progressKey struct{}

// WithProgress has every Resolve that is given no function of its own report to
// observe, under the same promise. It is for those who do not call Resolve
// themselves but through a driver, whose contract knows no images.
func WithProgress(ctx context.Context, observe func(Progress)) context.Context {
	return context.WithValue(ctx, progressKey{}, observe)
}

// observerOf prefers what the caller of Resolve gave. It is never nil.
func observerOf(ctx context.Context, given func(Progress)) func(Progress) {
	if given != nil {
		return given
	}
	if observe, ok := ctx.Value(progressKey{}).(func(Progress)); ok && observe != nil {
		return observe
	}
	return func(Progress) {}
}

// tally adds up what the layers of one image report, and passes it on, one
// report at a time.
type tally struct {
	mu      sync.Mutex
	observe func(Progress)
	now     Progress
}

// newTally begins with what an image of so many layers still lacks.
func newTally(layers int, lacking []layer, observe func(Progress)) *tally {
	t := &tally{observe: observe, now: Progress{Ready: layers - len(lacking), Layers: layers}}
	for _, l := range lacking {
		// Sizes are claims of the image, and their sum may be past all bounds.
		t.now.Total += min(l.size, math.MaxInt64-t.now.Total)
	}
	if len(lacking) > 0 {
		t.observe(t.now)
	}
	return t
}

// of gives the function by which a layer says how much of it has come. What
// comes beyond its claimed size is no progress: it will be refused.
func (t *tally) of(l layer) func(done int64) {
	counted := int64(0)
	return func(done int64) {
		t.mu.Lock()
		defer t.mu.Unlock()
		done = min(done, l.size)
		t.now.Done += min(done-counted, t.now.Total-t.now.Done)
		counted = done
		t.observe(t.now)
	}
}

// ready says that a layer is stored, whoever brought it.
func (t *tally) ready(report func(int64), l layer) {
	report(l.size)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.now.Ready++
	t.observe(t.now)
}
