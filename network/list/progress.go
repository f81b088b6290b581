package list

import (
	"context"
	"slices"
	"sync"
)

type progressKey struct{}

// WithProgress has a function be told who is waited for while a list is evaluated with
// this context: the names of tools and, when these have answered, of indexes. It is
// called by many goroutines, one at a time, and must not wait.
func WithProgress(ctx context.Context, waiting func(names []string)) context.Context {
	return context.WithValue(ctx, progressKey{}, waiting)
}

// waiting are those who have not answered.
type waiting struct {
	tell  func([]string)
	mu    sync.Mutex
	names []string
}

func waitFor(ctx context.Context, names []string) *waiting {
	w := &waiting{names: names}
	if w.tell, _ = ctx.Value(progressKey{}).(func([]string)); w.tell != nil && len(names) > 0 {
		w.tell(slices.Clone(names))
	}
	return w
}

// answered takes one off.
func (w *waiting) answered(name string) {
	if w.tell == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if at := slices.Index(w.names, name); at >= 0 {
		w.names = slices.Delete(w.names, at, at+1)
	}
	w.tell(slices.Clone(w.names))
}
