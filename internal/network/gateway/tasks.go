package gateway

import "sync"

// tasks are goroutines that somebody waits for at the end, after which none begins. The
// stack begins some of its own, whenever it likes: a sync.WaitGroup alone may not be added
// to while it is waited for.
type tasks struct {
	mu      sync.Mutex
	closed  bool
	running sync.WaitGroup
}

// begin says whether the caller's goroutine may go on. If so, end must follow.
func (t *tasks) begin() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.closed {
		t.running.Add(1)
	}
	return !t.closed
}

func (t *tasks) end() { t.running.Done() }

// run does something in a goroutine of its own, or not at all after close.
func (t *tasks) run(do func()) {
	if !t.begin() {
		return
	}
	go func() {
		defer t.end()
		do()
	}()
}

// close waits for all, and lets no more begin.
func (t *tasks) close() {
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	t.running.Wait()
}
