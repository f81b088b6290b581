package checkpoint

import (
	"math/rand/v2"
	"reflect"
	"testing"
)

// TestRuns compares with sets of single addresses.
func TestRuns(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		a, b := randomRuns(random), randomRuns(random)
		inA, inB := spread(a), spread(b)
		var wantMinus, wantBoth [64]bool
		for i := range inA {
			wantMinus[i], wantBoth[i] = inA[i] && !inB[i], inA[i] && inB[i]
		}
		if got := spread(minus(a, b)); got != wantMinus {
			t.Fatalf("%v minus %v: %v", a, b, minus(a, b))
		}
		if got := spread(both(a, b)); got != wantBoth {
			t.Fatalf("%v and %v: %v", a, b, both(a, b))
		}
		if got := spread(merged(minus(a, b), both(a, b))); got != inA {
			t.Fatalf("%v put together again from what is in %v and what is not: %v", a, b, got)
		}
	}
}

func randomRuns(random *rand.Rand) (list []run) {
	for at := uint64(random.IntN(8)); at < 60; at += 1 + uint64(random.IntN(6)) {
		end := min(at+1+uint64(random.IntN(8)), 64)
		list = append(list, run{at, end})
		at = end
	}
	return list
}

func spread(list []run) (set [64]bool) {
	for _, r := range list {
		for i := r.Start; i < r.End; i++ {
			set[i] = true
		}
	}
	return set
}

func TestKept(t *testing.T) {
	anon := func(start, end uint64) VMA { return VMA{Start: start, End: end, Write: true} }
	file := func(start, end, offset uint64) VMA {
		return VMA{Start: start, End: end, Offset: offset, Inode: 5, Name: "/lib"}
	}
	for _, c := range []struct {
		name     string
		old, now []VMA
		want     []run
	}{
		{"the same", []VMA{anon(1, 5)}, []VMA{anon(1, 5)}, []run{{1, 5}}},
		{"grown", []VMA{anon(1, 5)}, []VMA{anon(1, 9)}, []run{{1, 5}}},
		{"split by protection", []VMA{anon(1, 9)}, []VMA{anon(1, 4), {Start: 4, End: 9}}, []run{{1, 4}, {4, 9}}},
		{"a file at another offset", []VMA{file(1, 5, 0)}, []VMA{file(1, 5, 4)}, nil},
		{"part of a file", []VMA{file(1, 9, 0)}, []VMA{file(4, 6, 3)}, []run{{4, 6}}},
		{"a file instead of memory", []VMA{anon(1, 5)}, []VMA{file(1, 5, 0)}, nil},
		{"gone", []VMA{anon(1, 5)}, []VMA{anon(6, 9)}, nil},
		{"shared", []VMA{{Start: 1, End: 5, Shared: true}}, []VMA{{Start: 1, End: 5, Shared: true}}, nil},
	} {
		if got := kept(c.old, c.now); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}
