package guestmem

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestTaken: pages of which somebody was given a slice are noted, until they were asked for, and
// those that are only looked at are not.
func TestTaken(t *testing.T) {
	const size = 200 * pageSize
	m := New(make([]byte, size))
	for _, c := range []struct {
		at, size    uint64
		first, last int
	}{
		{0, 1, 0, 0}, {pageSize - 1, 2, 0, 1}, {63 * pageSize, pageSize, 63, 63}, {64 * pageSize, 64 * pageSize, 64, 127},
		{63*pageSize + 5, pageSize, 63, 64}, {60 * pageSize, 139 * pageSize, 60, 198}, {0, size, 0, 199}, {size - 1, 1, 199, 199}, {5 * pageSize, 0, 0, -1},
	} {
		if _, ok := m.View(c.at, c.size); !ok {
			t.Fatalf("%+v is no memory", c)
		}
		if _, ok := m.Slice(c.at, c.size); !ok {
			t.Fatalf("%+v is no memory", c)
		}
		var want []Extent
		if c.last >= c.first {
			want = []Extent{{int64(c.first) * pageSize, int64(c.last-c.first+1) * pageSize, 3}}
		}
		got := NewPages(size)
		m.Taken(got)
		if list := got.runs(3); !slices.Equal(list, want) {
			t.Errorf("%+v: %v, want %v", c, list, want)
		}
		clear(got)
		if m.Taken(got); len(got.runs(3)) > 0 {
			t.Errorf("%+v: it is noted for good", c)
		}
	}
}

// TestRuns: runs of pages are found wherever they begin and end.
func TestRuns(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	for range 500 {
		const count = 300
		pages := NewPages(count * pageSize)
		var want []Extent
		for n, set := 0, false; n < count; n++ {
			if random.IntN(40) == 0 {
				set = !set
			}
			if set {
				pages[n/64] |= 1 << (n % 64)
				want = addRun(want, Extent{int64(n) * pageSize, pageSize, 1})
			}
		}
		if got := pages.runs(1); !slices.Equal(got, want) {
			t.Fatalf("%v, want %v", got, want)
		}
	}
}
