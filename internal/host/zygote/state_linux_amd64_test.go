package zygote

import (
	"slices"
	"testing"
)

// TestStates holds the tables to what they must say, whatever else they allow.
func TestStates(t *testing.T) {
	for from, list := range phases {
		if !slices.Contains(list, dead) {
			t.Errorf("a zygote that is %s cannot end", from)
		}
		if from == dead && len(list) != 1 {
			t.Errorf("one that is dead can become %v", list)
		}
		if from != behind && from != current && slices.Contains(list, behind) {
			t.Errorf("one that is %s, and has no memory, can be behind", from)
		}
	}
	order := []warmState{idle, assigned, joining, joined}
	for i, from := range order {
		if want := order[i+1 : min(i+2, len(order))]; !slices.Equal(warmStates[from], want) {
			t.Errorf("a warm fork that is %s can become %v, not %v", from, warmStates[from], want)
		}
	}
}

func TestAdvance(t *testing.T) {
	for from := range phases {
		for to := range phases {
			state := from
			allowed := slices.Contains(phases[from], to)
			if panicked := panics(func() { advance(phases, &state, to) }); panicked == allowed {
				t.Errorf("from %s to %s: panics %v", from, to, panicked)
			}
			if want := map[bool]phase{true: to, false: from}[allowed]; state != want {
				t.Errorf("from %s to %s: it is %s", from, to, state)
			}
		}
	}
}

func panics(fn func()) (did bool) {
	defer func() { did = recover() != nil }()
	fn()
	return false
}
