package guestmem

import (
	"bytes"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

func openPages(t *testing.T) *os.File {
	t.Helper()
	pages, err := os.Open("/proc/self/pagemap")
	if err != nil {
		t.Skipf("no pagemap: %v", err)
	}
	t.Cleanup(func() { pages.Close() })
	return pages
}

// put writes a byte as who says so.
func put(l *Layers, at int, v byte) {
	b, _ := l.Slice(uint64(at), 1)
	b[0] = v
}

// newSource is memory in a file of its own.
func newSource(t *testing.T, size int64) *Layers {
	t.Helper()
	l, err := NewLayers(memoryFile(t, size), size)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// frozen freezes memory and gives a copy of it, as another process would map it.
func frozen(t *testing.T, l *Layers, pages *os.File) *Layers {
	t.Helper()
	layer := memoryFile(t, int64(len(l.Bytes())))
	before := append(slices.Clone(l.Files()), layer)
	changed := NewPages(int64(len(l.Bytes())))
	l.Taken(changed)
	kept, err := l.Freeze(changed, pages, layer)
	if err != nil || len(kept) != len(l.Files()) {
		t.Fatalf("%v are kept of %d, %v", kept, len(l.Files()), err)
	}
	for n, was := range kept {
		if before[was] != l.Files()[n] {
			t.Errorf("file %d is not file %d of before", n, was)
		}
	}
	for _, file := range l.Files()[len(l.Files())-1:] {
		if _, err := unix.FcntlInt(file.Fd(), unix.F_ADD_SEALS, unix.F_SEAL_WRITE); err != nil {
			t.Fatalf("seal: %v", err)
		}
	}
	var files []*os.File
	for _, file := range l.Files() {
		fd, err := unix.Dup(int(file.Fd()))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, os.NewFile(uintptr(fd), "again"))
	}
	child, err := Join(files, l.Extents(), int64(len(l.Bytes())))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		child.Close()
		for _, file := range child.files {
			file.Close()
		}
	})
	return child
}

// TestFilled: what a file has and what was written is found, however the memory is mapped, and
// nothing becomes of the rest by being looked for.
func TestFilled(t *testing.T) {
	const size = 64 * pageSize
	pages := openPages(t)
	const before = 5 * pageSize // what is not of the memory
	file, saved := memoryFile(t, size), memoryFile(t, before+size)
	l, err := NewLayers(file, size)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	watched := []*os.File{file, saved}
	blocks := func() (sum int64) {
		for _, file := range watched {
			var stat unix.Stat_t
			if err := unix.Fstat(int(file.Fd()), &stat); err != nil {
				t.Fatal(err)
			}
			sum += stat.Blocks
		}
		return sum
	}
	want := func(what string, l *Layers, runs ...Extent) {
		t.Helper()
		before := blocks()
		got, err := l.Filled(pages)
		if err != nil || !slices.Equal(got, runs) {
			t.Errorf("%s: %v, %v, want %v", what, got, err, runs)
		}
		if now := blocks(); now != before {
			t.Errorf("%s: the files have grown from %d blocks to %d", what, before, now)
		}
	}
	page := func(first, count int64) Extent { return Extent{Start: first * pageSize, Size: count * pageSize} }
	write := func(l *Layers, page int) { put(l, page*pageSize+7, 1) }
	want("nothing", l)
	write(l, 3)
	write(l, 4)
	write(l, 63)
	want("in a file of its own", l, page(3, 2), page(63, 1))
	child := frozen(t, l, pages)
	want("a copy", child, page(3, 2), page(63, 1))
	write(child, 30) // of which the kernel makes a page of the file, too
	want("a copy, and written since", child, page(3, 2), page(30, 1), page(63, 1))
	write(child, 63)
	write(child, 5)
	want("a copy of it", frozen(t, child, pages), page(3, 3), page(30, 1), page(63, 1))

	if _, err := saved.WriteAt([]byte{1}, before+9*pageSize); err != nil {
		t.Fatal(err)
	}
	if _, err := saved.WriteAt([]byte{1}, 4*pageSize); err != nil {
		t.Fatal(err)
	}
	borrowed, err := Borrow(saved, before, size)
	if err != nil {
		t.Fatal(err)
	}
	defer borrowed.Close()
	write(borrowed, 11)
	want("borrowed", borrowed, page(9, 1), page(11, 1))
	watched = watched[:1] // the other is closed
	if copied := frozen(t, borrowed, pages); copied.Bytes()[9*pageSize] != 1 || copied.Bytes()[11*pageSize+7] != 1 {
		t.Error("a copy of what is borrowed is another")
	}
	want("borrowed, and frozen", borrowed, page(9, 1), page(11, 1))
}

// TestLayers: forks of forks, and of the source again and again, have each what was there,
// and nothing of what others write later. There are never many files.
func TestLayers(t *testing.T) {
	const size = 2 << 20
	pages := openPages(t)
	source := newSource(t, size)
	type copied struct {
		*Layers
		want []byte
	}
	all := []copied{{source, make([]byte, size)}}
	random := rand.New(rand.NewPCG(1, 2))
	for round := range 28 {
		for n := range all {
			for range 20 {
				at, v := random.IntN(size), byte(random.IntN(256))
				put(all[n].Layers, at, v)
				all[n].want[at] = v
			}
		}
		of := 0
		if round%6 == 0 {
			of = len(all) - 1 // a fork of a fork
		}
		child := copied{frozen(t, all[of].Layers, pages), bytes.Clone(all[of].want)}
		if len(child.Files()) > maxFiles+1 {
			t.Fatalf("%d files", len(child.Files()))
		}
		if len(all) > 12 {
			all = slices.Delete(all, 1, 2)
		}
		all = append(all, child)
	}
	for n, c := range all {
		if !bytes.Equal(c.Bytes(), c.want) {
			t.Errorf("copy %d has other memory", n)
		}
	}
}

// Memory of a file that is not to be handed on is copied once, without what is zero.
func TestBorrowed(t *testing.T) {
	const size = 4 << 20
	pages, file := openPages(t), memoryFile(t, size+pageSize)
	if _, err := file.WriteAt([]byte("kept"), pageSize+5); err != nil {
		t.Fatal(err)
	}
	l, err := Borrow(file, pageSize, size)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	put(l, size-1, 7)
	child := frozen(t, l, pages)
	if got := child.Bytes(); string(got[5:9]) != "kept" || got[size-1] != 7 || len(child.files) != 1 {
		t.Errorf("%q, %d, in %d files", got[5:9], got[size-1], len(child.files))
	}
	var stat unix.Stat_t
	if err := unix.Fstat(int(child.files[0].Fd()), &stat); err != nil || stat.Blocks*512 > 256<<10 {
		t.Errorf("it has %d bytes, %v", stat.Blocks*512, err)
	}
}

// pagesOf are runs, as pairs of their first page and how many they are.
func pagesOf(list []Extent) (numbers []int64) {
	for _, e := range list {
		numbers = append(numbers, e.Start/pageSize, e.Size/pageSize)
	}
	return numbers
}

// Memory that is written here and there all over has few enough mappings, and what lies close
// together is one.
func TestScattered(t *testing.T) {
	run := func(from, count int64) Extent { return Extent{from * pageSize, count * pageSize, 1} }
	all := []Extent{{0, 1 << 20 * pageSize, 0}}
	var written []Extent
	for n := int64(0); n < 1<<20; n += 9 {
		written = append(written, run(n, 1))
	}
	if got := len(overlay(all, join(all, written))); got > maxExtents {
		t.Errorf("%d runs", got)
	}
	few := []Extent{run(10, 1), run(13, 1), run(50, 1)}
	if got := pagesOf(join(all, few)); !slices.Equal(got, []int64{10, 4, 50, 1}) {
		t.Errorf("%v", got)
	}
	// Many runs with more between them than is worth it stay as they are; with less they are
	// fewer, and bring no more than a part of what was written.
	for _, c := range []struct{ pages, every, want int64 }{{1, 100, 100}, {40, 48, 1}} {
		written = nil
		for n := range int64(100) {
			written = append(written, run(n*c.every, c.pages))
		}
		if got := join(all, written); int64(len(got)) != c.want {
			t.Errorf("%d pages in every %d: %d runs", c.pages, c.every, len(got))
		}
	}
	if got := join(all, nil); len(got) != 0 {
		t.Errorf("of nothing %v", got)
	}
}

// TestOverlay: what is over other runs hides them, and only where it is.
func TestOverlay(t *testing.T) {
	const pages = 64
	random := rand.New(rand.NewPCG(3, 4))
	runs := []Extent{{0, pages * pageSize, 0}}
	owner := make([]uint32, pages)
	for round := range uint32(200) {
		file := round%5 + 1
		var over []Extent
		for at := int64(0); at < pages; {
			from := at + random.Int64N(20)
			count := min(1+random.Int64N(8), pages-from)
			if count <= 0 {
				break
			}
			over = addRun(over, Extent{from * pageSize, count * pageSize, file})
			for n := from; n < from+count; n++ {
				owner[n] = file
			}
			at = from + count
		}
		runs = overlay(runs, over)
		at := int64(0)
		for n, e := range runs {
			if e.Start != at || n > 0 && runs[n-1].File == e.File {
				t.Fatalf("round %d: %v", round, runs)
			}
			for ; at < e.Start+e.Size; at += pageSize {
				if owner[at/pageSize] != e.File {
					t.Fatalf("round %d: page %d is of %d, and not of %d", round, at/pageSize, e.File, owner[at/pageSize])
				}
			}
		}
		if at != pages*pageSize {
			t.Fatalf("round %d: %d bytes", round, at)
		}
	}
	if got := pagesOf(above([]Extent{{0, 4 * pageSize, 0}, {4 * pageSize, 4 * pageSize, 2}}, []Extent{{2 * pageSize, 2 * pageSize, 3}}, 3)); !slices.Equal(got, []int64{2, 6}) {
		t.Errorf("%v", got)
	}
}

func TestHostileLayers(t *testing.T) {
	const size = 4 * pageSize
	short := memoryFile(t, pageSize)
	for what, c := range map[string]struct {
		files   []*os.File
		extents []Extent
		size    int64
	}{
		"no file":      {nil, []Extent{{0, size, 0}}, size},
		"no runs":      {[]*os.File{short}, nil, size},
		"short file":   {[]*os.File{short}, []Extent{{0, size, 0}}, size},
		"no such file": {[]*os.File{memoryFile(t, size)}, []Extent{{0, size, 1}}, size},
		"a gap":        {[]*os.File{memoryFile(t, size)}, []Extent{{pageSize, size - pageSize, 0}}, size},
		"an overlap":   {[]*os.File{memoryFile(t, size)}, []Extent{{0, size, 0}, {0, size, 0}}, size},
		"beyond":       {[]*os.File{memoryFile(t, size)}, []Extent{{0, 2 * size, 0}}, size},
		"backwards":    {[]*os.File{memoryFile(t, size)}, []Extent{{0, -pageSize, 0}}, size},
		"no end":       {[]*os.File{memoryFile(t, size)}, []Extent{{0, math.MaxInt64 &^ (pageSize - 1), 0}}, math.MaxInt64 &^ (pageSize - 1)},
		"half a page":  {[]*os.File{memoryFile(t, size)}, []Extent{{0, 100, 0}, {100, size - 100, 0}}, size},
	} {
		if l, err := Join(c.files, c.extents, c.size); err == nil || errors.Is(err, ErrLost) {
			t.Errorf("%s: %v, %v", what, l, err)
		}
	}
}

// TestBeyond: what is other than in the first of the files is kept over it, however the memory came
// about, and what was written over to zero is not what it was before.
func TestBeyond(t *testing.T) {
	const size, before = 64 * pageSize, 3 * pageSize
	pages := openPages(t)
	source := newSource(t, size)
	if _, _, err := source.Beyond(pages); err == nil {
		t.Error("memory whose file changes is over that file")
	}
	for n := range 40 {
		put(source, n*pageSize, byte(n+1))
	}
	child := frozen(t, source, pages) // in one file
	base := child.files[0]
	put(child, 2*pageSize, 0)
	put(child, 50*pageSize+5, 7)
	child = frozen(t, child, pages) // with a layer
	put(child, 20*pageSize, 99)

	saved := memoryFile(t, before+size)
	over := func(l *Layers, to *os.File, lent bool) *Layers {
		t.Helper()
		runs, all, err := l.Beyond(pages)
		if err != nil || total(runs) > size/2 {
			t.Fatalf("%v, %v", runs, err)
		}
		for _, e := range runs {
			if _, err := to.WriteAt(l.Bytes()[e.Start:e.Start+e.Size], before+e.Start); err != nil {
				t.Fatal(err)
			}
		}
		got, err := BorrowOver(base, to, lent, all, before, size)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { got.Close() })
		if !bytes.Equal(got.Bytes(), l.Bytes()) || got.Bytes()[20*pageSize] != 99 || got.Bytes()[2*pageSize] != 0 {
			t.Error("what is over the first of its files is other memory")
		}
		return got
	}
	restored := over(child, saved, false)
	put(restored, 30*pageSize+1, 31)
	again := over(restored, memoryFile(t, before+size), true)
	for _, c := range []struct {
		of    *Layers
		files int
	}{{restored, 2}, {again, 1}} { // the first of which has the base
		put(c.of, 31*pageSize, 5)
		if copied := frozen(t, c.of, pages); !bytes.Equal(copied.Bytes(), c.of.Bytes()) || len(copied.files) != c.files {
			t.Errorf("a copy of it is other memory, or in %d files", len(copied.files))
		}
	}
}

// TestFreezeAgain: what was written is in the next layer also if there was no room for it in one.
func TestFreezeAgain(t *testing.T) {
	const size = 64 * pageSize
	pages := openPages(t)
	source := newSource(t, size)
	child := frozen(t, source, pages)
	put(child, 3*pageSize, 7)
	full, changed := memoryFile(t, size), NewPages(size)
	if _, err := unix.FcntlInt(full.Fd(), unix.F_ADD_SEALS, unix.F_SEAL_WRITE); err != nil {
		t.Fatal(err)
	}
	child.Taken(changed)
	if _, err := child.Freeze(changed, pages, full); err == nil || errors.Is(err, ErrLost) {
		t.Fatalf("a layer that cannot be written to: %v", err)
	}
	put(child, 9*pageSize, 8)
	if got := frozen(t, child, pages).Bytes(); got[3*pageSize] != 7 || got[9*pageSize] != 8 {
		t.Errorf("a copy has %d and %d", got[3*pageSize], got[9*pageSize])
	}
}

// TestFlatten: layers become one while the memory goes on changing, and what was copied from them
// stays as it was.
func TestFlatten(t *testing.T) {
	const size = 64 * pageSize
	pages := openPages(t)
	source := newSource(t, size)
	if _, err := source.Flatten(memoryFile(t, size)); err == nil {
		t.Error("memory that was never frozen is flattened")
	}
	for n := range 64 {
		put(source, n*pageSize, byte(n+1))
	}
	first := frozen(t, source, pages)
	want := bytes.Clone(source.Bytes())
	for round := range 6 {
		at := 5 * round
		put(source, at*pageSize, 100+byte(round))
		put(source, 60*pageSize, byte(round)) // zero the first time
		want[at*pageSize], want[60*pageSize] = 100+byte(round), byte(round)
		frozen(t, source, pages)
	}
	before := frozen(t, source, pages)
	put(source, 40*pageSize, 1)
	layer := memoryFile(t, size)
	files := append(slices.Clone(source.Files()), layer)
	kept, err := source.Flatten(layer)
	if err != nil || len(files) < 8 || len(kept) != 2 || files[kept[0]] != files[0] || files[kept[1]] != layer || len(source.Files()) != 2 {
		t.Fatalf("%v are kept of %d, %v", kept, len(files), err)
	}
	if !bytes.Equal(before.Bytes(), want) || first.Bytes()[0] != 1 {
		t.Error("who shares the layers has other memory")
	}
	want[40*pageSize] = 1
	if after := frozen(t, source, pages); !bytes.Equal(after.Bytes(), want) || len(after.files) != 3 {
		t.Errorf("a copy is other memory, or in %d files", len(after.files))
	}
}
