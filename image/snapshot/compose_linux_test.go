package snapshot

import (
	"bytes"
	"crypto/rand"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"aether/sandbox"
)

// randomPages are so many, no two alike.
func randomPages(n int) []byte {
	data := make([]byte, n*pageSize)
	rand.Read(data)
	return data
}

// changed is a copy with one byte changed in some pages.
func changed(data []byte, pages ...int) []byte {
	data = bytes.Clone(data)
	for _, p := range pages {
		data[p*pageSize+7]++
	}
	return data
}

// keepOver makes a snapshot with a content attached, over a basis.
func keepOver(t *testing.T, store *Store, basis *Basis, content []byte) (dir string, rec Record) {
	t.Helper()
	upper, err := os.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer upper.Close()
	draft, err := store.Take(t.Context(), upper, func(uid, gid uint32) (uint32, uint32) { return 0, 0 })
	if err != nil {
		t.Fatal(err)
	}
	draft.Over(basis)
	file, err := draft.Attach("pages")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.Write(content); err != nil || file.Close() != nil {
		t.Fatal(err)
	}
	dir = t.TempDir()
	if err := draft.Commit(t.Context(), dir, nil, Record{}); err != nil {
		t.Fatal(err)
	}
	if rec, err = Read(dir); err != nil {
		t.Fatal(err)
	}
	return dir, rec
}

func wantContent(t *testing.T, store *Store, dir string, rec Record, want []byte) {
	t.Helper()
	file, err := store.OpenAttached(t.Context(), dir, rec, "pages")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if got, err := io.ReadAll(file); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%d bytes, %v, want %d", len(got), err, len(want))
	}
}

// stored is how many bytes of contents a store has.
func stored(t *testing.T, store *Store) (sum int64) {
	t.Helper()
	entries, err := os.ReadDir(store.path("blobs"))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		sum += info.Size()
	}
	return sum
}

// TestOverABasis: of a content that is like another one only the rest is stored, wherever
// its pages are, and it is whole also when the other's snapshot is gone.
func TestOverABasis(t *testing.T) {
	store, err := Open(filepath.Join(t.TempDir(), "store"))
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	first := randomPages(1024)
	base, rec := keepOver(t, store, nil, first)
	basis, err := store.NewBasis(t.Context(), rec)
	if err != nil || basis == nil {
		t.Fatalf("%v, %v", basis, err)
	}
	if err := os.RemoveAll(base); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Reap(t.Context()); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		content []byte
		most    int64 // pages that it may cost
	}{
		"the same":          {first, 1},
		"some changed":      {changed(first, 0, 10, 500, 1023), 6},
		"moved by a page":   {append(randomPages(1), first...), 2},
		"in another order":  {append(bytes.Clone(first[2<<20:]), first[:2<<20]...), 1},
		"an odd end":        {append(bytes.Clone(first), "end"...), 2},
		"nothing in common": {randomPages(300), 301},
		"small":             {first[:100*pageSize], 101},
	} {
		before := stored(t, store)
		dir, rec := keepOver(t, store, basis, c.content)
		cost := stored(t, store) - before
		if cost > c.most*pageSize+2000 { // and its manifest
			t.Errorf("%s costs %d pages, want %d", name, cost/pageSize, c.most)
		}
		wantContent(t, store, dir, rec, c.content)
		again, err := store.NewBasis(t.Context(), rec)
		if err != nil {
			t.Fatal(err)
		}
		if err := again.Release(); err != nil {
			t.Error(err)
		}
		if name != "the same" {
			continue
		}
		wantDamageSeen(t, store, dir, rec)
	}
	if err := basis.Release(); err != nil {
		t.Error(err)
	}
}

// wantDamageSeen wants a part that was changed to be refused.
func wantDamageSeen(t *testing.T, store *Store, dir string, rec Record) {
	t.Helper()
	for _, c := range rec.Composed {
		blob := filepath.Join(dir, "blobs", c.Base[0])
		data, err := os.ReadFile(blob)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(blob); err != nil {
			t.Fatal(err)
		}
		wantClass(t, store, dir, rec, "pages", sandbox.Invalid)
		if err := os.WriteFile(blob, changed(data, 5), 0o400); err != nil {
			t.Fatal(err)
		}
		wantClass(t, store, dir, rec, "pages", sandbox.Invalid)
	}
}

// TestBasisIsCollected once nobody keeps it and no snapshot has parts of it.
func TestBasisIsCollected(t *testing.T) {
	store, err := Open(filepath.Join(t.TempDir(), "store"))
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	first := randomPages(600)
	base, rec := keepOver(t, store, nil, first)
	basis, err := store.NewBasis(t.Context(), rec)
	if err != nil {
		t.Fatal(err)
	}
	second, rec := keepOver(t, store, basis, changed(first, 3))
	if err := basis.Release(); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(base); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Reap(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantContent(t, store, second, rec, changed(first, 3))
	if err := os.RemoveAll(second); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Reap(t.Context()); err != nil || stored(t, store) != 0 {
		t.Errorf("%d bytes are left, %v", stored(t, store), err)
	}
}

func TestOddCompositionsAreRefused(t *testing.T) {
	digest := strings.Repeat("a", 64)
	for name, composed := range map[string]string{
		"of nothing":      `{"base":[],"parts":[]}`,
		"no digest":       `{"base":["../../etc/passwd"],"parts":[]}`,
		"own is none":     `{"base":["` + digest + `"],"own":"x","parts":[]}`,
		"another content": `{"base":["` + digest + `"],"parts":[[1,0,1]]}`,
		"before it":       `{"base":["` + digest + `"],"parts":[[-1,0,1]]}`,
		"negative":        `{"base":["` + digest + `"],"parts":[[0,-1,1]]}`,
		"empty":           `{"base":["` + digest + `"],"parts":[[0,0,0]]}`,
		"too large":       `{"base":["` + digest + `"],"parts":[[0,0,1099511627777]]}`,
		"too much":        `{"base":["` + digest + `"],"parts":[[0,0,1099511627776],[0,0,1]]}`,
	} {
		_, err := parseRecord([]byte(`{"format":1,"image":"","manifest":"` + digest + `","entries":0,"created":"2000-01-01T00:00:00Z","composed":{"` + digest + `":` + composed + `}}`))
		if sandbox.ClassOf(err) != sandbox.Invalid {
			t.Errorf("%s: %v", name, err)
		}
	}
}
