package checkpoint

import (
	"os"
	"reflect"
	"slices"
	"testing"
)

func TestStretches(t *testing.T) {
	const mib = 1 << 20
	areas := []VMA{
		{Start: 1 * mib, End: 2 * mib, Inode: 7},
		{Start: 2 * mib, End: 4 * mib},               // large
		{Start: 4 * mib, End: 4*mib + pageSize},      // small
		{Start: 6 * mib, End: 8 * mib, Shared: true}, // somebody else's
		{Start: 8 * mib, End: 9 * mib},
	}
	want := []stretch{
		{run{1 * mib, 2 * mib}, false}, {run{2 * mib, 4 * mib}, true}, {run{4 * mib, 8 * mib}, false},
		{run{8 * mib, 9 * mib}, true}, {run{9 * mib, userEnd}, false},
	}
	if got := stretches(areas); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, not %+v", got, want)
	}
	if got := stretches(nil); got != nil {
		t.Errorf("no areas are divided into %+v", got)
	}
}

func TestNear(t *testing.T) {
	const p = pageSize
	list := []run{{0, p}, {9 * p, 10 * p}, {19 * p, 20 * p}, {20 * p, 21 * p}}
	if got, want := near(list), []run{{0, 10 * p}, {19 * p, 21 * p}}; !slices.Equal(got, want) {
		t.Errorf("%x, not %x", got, want)
	}
}

func TestBlocks(t *testing.T) {
	const h, p = hugePage, pageSize
	for name, c := range map[string]struct{ list, want []run }{
		"none":              {nil, nil},
		"whole":             {[]run{{h, 2 * h}}, []run{{h, 2 * h}}},
		"nearly whole":      {[]run{{h, h + 300*p}, {h + 310*p, 2 * h}}, []run{{h, 2 * h}}},
		"half":              {[]run{{h, h + h/2}}, nil},
		"several":           {[]run{{h - p, 3*h + p}}, []run{{h, 3 * h}}},
		"apart":             {[]run{{h, 2 * h}, {4 * h, 5 * h}}, []run{{h, 2 * h}, {4 * h, 5 * h}}},
		"across the border": {[]run{{h / 2, h + h/2}}, nil},
	} {
		if got := blocks(c.list); !slices.Equal(got, c.want) {
			t.Errorf("%s: %x, not %x", name, got, c.want)
		}
	}
}

func TestCountThreads(t *testing.T) {
	n, err := countThreads(os.Getpid())
	listed, failed := taskIDs(os.Getpid())
	if err != nil || failed != nil || n < 1 || n < len(listed)-2 || n > len(listed)+2 { // Go makes some at any time
		t.Errorf("%d threads, listed are %d: %v, %v", n, len(listed), err, failed)
	}
}
