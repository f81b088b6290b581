package list

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestCache(t *testing.T) {
	now := time.Now()
	c := Cache{Dir: filepath.Join(t.TempDir(), "lists"), Env: []string{"HOME=/a"}, now: func() time.Time { return now }}
	if _, ok := c.Load(NamePackages); ok {
		t.Error("there is one already")
	}
	l := List{Name: NamePackages, Source: "x", Entries: []Entry{{Allow: "a.example:443", From: "y", Private: true, Credential: basicCredential("me", "hunter2")}}}
	if err := c.Store(l); err != nil {
		t.Fatal(err)
	}
	got, ok := c.Load(NamePackages)
	if !ok || got.Entries[0].Credential == nil || got.Entries[0].Credential.Known() {
		t.Fatalf("%+v, %v", got, ok)
	}
	got.Entries[0].Credential, l.Entries[0].Credential = nil, nil
	if !reflect.DeepEqual(got, l) {
		t.Errorf("%+v is not %+v", got, l)
	}
	other := c
	other.Env = []string{"HOME=/b"}
	if _, ok := other.Load(NamePackages); ok {
		t.Error("another environment has the same list")
	}
	for _, moment := range []time.Duration{-time.Minute, time.Hour, 1000 * time.Hour} {
		later := c
		later.now = func() time.Time { return now.Add(moment) }
		if _, ok := later.Load(NamePackages); ok {
			t.Errorf("it is still good after %v", moment)
		}
	}
	l.Incomplete = true
	if err := c.Store(l); err != nil {
		t.Fatal(err)
	}
	later := c
	later.now = func() time.Time { return now.Add(2 * time.Minute) }
	if _, ok := later.Load(NamePackages); ok {
		t.Error("what lacks something is kept for long")
	}
}

func TestCacheIsDamaged(t *testing.T) {
	c := Cache{Dir: t.TempDir(), Env: []string{}}
	good := `{"format":1,"at":"` + time.Now().UTC().Format(time.RFC3339) + `","list":{"name":"packages","entries":[{"allow":"a.example","from":"x"}]}}`
	for text, want := range map[string]bool{
		good: true, "": false, "{": false, strings.Replace(good, "a.example", "https://x", 1): false, strings.Replace(good, `"packages"`, `"other"`, 1): false,
		strings.Replace(good, `"format":1`, `"format":2`, 1): false, strings.Repeat(" ", maxPage+1) + good: false,
	} {
		if err := os.WriteFile(c.path(NamePackages), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if l, ok := c.Load(NamePackages); ok != want {
			t.Errorf("%.80s: %+v", text, l)
		}
	}
	if _, ok := c.Load("../x"); ok {
		t.Error("a name leads out")
	}
}

// TestCacheOfMany has readers find a whole list whenever they look, and nothing be left.
func TestCacheOfMany(t *testing.T) {
	c := Cache{Dir: t.TempDir(), Env: []string{}}
	l := List{Name: "x", Entries: make([]Entry, 2000)}
	for i := range l.Entries {
		l.Entries[i] = Entry{Allow: "a.example", From: "x"}
	}
	if err := c.Store(l); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 20 {
				if err := c.Store(l); err != nil {
					t.Error(err)
				}
			}
		})
		all.Go(func() {
			for range 20 {
				if got, ok := c.Load("x"); !ok || len(got.Entries) != len(l.Entries) {
					t.Error("a part of it was read")
				}
			}
		})
	}
	all.Wait()
	entries, err := os.ReadDir(c.Dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("%v, %v", entries, err)
	}
}

func TestCacheForgets(t *testing.T) {
	c := Cache{Dir: t.TempDir(), Env: []string{"HOME=/old"}}
	if err := c.Store(List{Name: "x"}); err != nil {
		t.Fatal(err)
	}
	old := time.Now().Add(-2 * time.Hour)
	if err := os.Chtimes(c.path("x"), old, old); err != nil {
		t.Fatal(err)
	}
	gone := c.path("x")
	c.Env = []string{"HOME=/new"}
	if err := c.Store(List{Name: "x"}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(gone); !os.IsNotExist(err) {
		t.Errorf("it is still there: %v", err)
	}
}

func TestCachedPackages(t *testing.T) {
	b := newBench(t)
	b.script("npm", `echo x >> `+b.home+`/asked; echo '{"registry":"file:/x"}'`)
	b.set("PATH=" + b.home + "/bin")
	c := Cache{Dir: t.TempDir(), Env: b.env}
	for _, refresh := range []bool{false, false, true} {
		if _, err := c.Packages(t.Context(), Options{Dir: t.TempDir(), Env: b.env}, refresh); err != nil {
			t.Fatal(err)
		}
	}
	if asked, err := os.ReadFile(b.home + "/asked"); err != nil || string(asked) != "x\nx\n" {
		t.Errorf("%q, %v", asked, err)
	}
}

func FuzzCached(f *testing.F) {
	f.Add([]byte(`{"format":1,"at":"2030-01-01T00:00:00Z","list":{"name":"packages","entries":[{"allow":"a.example","from":"x","credential":"[secret]"}]}}`))
	at := time.Date(2030, 1, 1, 0, 1, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, text []byte) {
		l, err := decodeCached(text, at)
		if err != nil {
			return
		}
		for _, e := range l.Entries {
			if e.Credential.Known() {
				t.Fatal("a secret was kept")
			}
		}
	})
}
