package cell

import (
	"slices"
	"testing"
	"time"
)

// WaitForFirst has cells wait for their first command for another time with a place for it.
// No cell may live.
func WaitForFirst(t *testing.T, d time.Duration) {
	t.Helper()
	was := waitForFirst
	waitForFirst = d
	t.Cleanup(func() { waitForFirst = was })
}

// IsVacant says that a cell has given its place away.
func IsVacant(i any) bool {
	p := &i.(*instance).place
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.state == vacant
}

// TestPlaceStates: what has been written in a cell is charged to its group, so that a cell
// in which something may have run never gets another.
func TestPlaceStates(t *testing.T) {
	for from, list := range placeStates {
		if from != ended && !slices.Contains(list, ended) {
			t.Errorf("a cell whose place is %s cannot end", from)
		}
		for _, to := range list {
			if from == occupied && to != ended || from == ended {
				t.Errorf("a place that was %s can be %s", from, to)
			}
		}
	}
	for from := range placeStates {
		for to := range placeStates {
			p := place{state: from}
			if became := !panics(func() { p.become(to) }); became != slices.Contains(placeStates[from], to) {
				t.Errorf("from %s to %s: %v", from, to, became)
			}
		}
	}
}

func panics(fn func()) (did bool) {
	defer func() { did = recover() != nil }()
	fn()
	return false
}
