package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"aether/sandbox"
)

type thing struct {
	Name  string `json:"name"`
	Count int    `json:"count"`
}

var quiet = slog.New(slog.DiscardHandler)

func openTest(t *testing.T, path string, d disk) *Dir {
	t.Helper()
	dir, err := open(path, quiet, d)
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func things(t *testing.T, d *Dir) *Kind[thing] {
	t.Helper()
	k, err := NewKind[thing](d, "things", 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func TestRecords(t *testing.T) {
	path := t.TempDir()
	d := openTest(t, path, osDisk{})
	k := things(t, d)
	for i := range 3 {
		if err := errors.Join(k.Save("a", thing{"a", i}), k.Note("b", thing{"b", i})); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(k.Home("b"), "more"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path, quiet); sandbox.ClassOf(err) != sandbox.Conflict {
		t.Errorf("a second program: %v", err)
	}
	if err := errors.Join(k.Remove("b"), k.Remove("b"), d.Close()); err != nil {
		t.Fatal(err)
	}
	d = openTest(t, path, osDisk{})
	defer d.Close()
	all, err := things(t, d).All()
	if err != nil || len(all) != 1 || all["a"] != (thing{"a", 2}) {
		t.Errorf("%v, %v", all, err)
	}
	if _, err := things(t, d).Load("b"); sandbox.ClassOf(err) != sandbox.NotFound {
		t.Errorf("removed: %v", err)
	}
	for _, id := range []string{"", "..", "a/b", "A", strings.Repeat("a", 65), "a\x00"} {
		if err := k.Save(id, thing{}); sandbox.ClassOf(err) != sandbox.Invalid {
			t.Errorf("the id %q: %v", id, err)
		}
	}
}

// TestDamage: whatever a record has become, it is set aside with the reason, and the
// others are there.
// TestBegun: a place that was begun is a record's from its first Save on, and is removed if
// that never came.
func TestBegun(t *testing.T) {
	d := openTest(t, t.TempDir(), osDisk{})
	defer d.Close()
	k := things(t, d)
	for _, id := range []string{"whole", "half"} {
		home, err := k.Begin(id)
		if err == nil {
			err = os.Mkdir(filepath.Join(home, "more"), 0o700)
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, err := k.Begin(id); err == nil {
			t.Errorf("%s was begun twice", id)
		}
	}
	if err := k.Save("whole", thing{"whole", 1}); err != nil {
		t.Fatal(err)
	}
	if all, err := k.All(); err != nil || len(all) != 1 || all["whole"].Count != 1 {
		t.Errorf("%v, %v", all, err)
	}
	for id, want := range map[string]bool{"whole": true, "half": false} {
		if _, err := os.Stat(filepath.Join(k.Home(id), "more")); (err == nil) != want {
			t.Errorf("%s: %v", id, err)
		}
	}
	if _, err := k.Begin("../x"); sandbox.ClassOf(err) != sandbox.Invalid {
		t.Errorf("a bad id: %v", err)
	}
}

func TestDamage(t *testing.T) {
	whole, err := encode(1, thing{"x", 7})
	if err != nil {
		t.Fatal(err)
	}
	newer, err := encode(2, thing{"x", 7})
	if err != nil {
		t.Fatal(err)
	}
	flipped := []byte(strings.Replace(string(whole), `"x"`, `"y"`, 1))
	for name, contents := range map[string][]byte{
		"empty": {}, "cut": whole[:len(whole)-4], "flipped": flipped, "newer": newer, "zeros": make([]byte, len(whole)), "text": []byte("hello\nworld\n"),
		"large": make([]byte, maxRecord+1<<20),
	} {
		t.Run(name, func(t *testing.T) {
			path := t.TempDir()
			d := openTest(t, path, osDisk{})
			defer d.Close()
			k := things(t, d)
			if err := errors.Join(k.Save("good", thing{"good", 1}), k.Save("bad", thing{"bad", 1})); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(k.Home("bad"), recordName), contents, 0o600); err != nil {
				t.Fatal(err)
			}
			all, err := k.All()
			if err != nil || len(all) != 1 || all["good"].Count != 1 {
				t.Errorf("%v, %v", all, err)
			}
			reasons, err := filepath.Glob(filepath.Join(path, damagedName, "things-bad-*.reason"))
			if err != nil || len(reasons) != 1 {
				t.Fatalf("the reasons are %v, %v", reasons, err)
			}
			if text, err := os.ReadFile(reasons[0]); err != nil || len(text) < 10 {
				t.Errorf("%q, %v", text, err)
			}
			if kept, err := os.ReadFile(filepath.Join(strings.TrimSuffix(reasons[0], ".reason"), recordName)); err != nil || len(kept) != len(contents) {
				t.Errorf("what was damaged is lost: %v", err)
			}
		})
	}
}

func TestMigration(t *testing.T) {
	path := t.TempDir()
	d := openTest(t, path, osDisk{})
	defer d.Close()
	if err := things(t, d).Save("old", thing{"old", 5}); err != nil {
		t.Fatal(err)
	}
	type newer struct {
		Title string `json:"title"`
		Count int    `json:"count"`
	}
	rename := func(old json.RawMessage) (json.RawMessage, error) {
		return []byte(strings.Replace(string(old), `"name"`, `"title"`, 1)), nil
	}
	double := func(old json.RawMessage) (json.RawMessage, error) {
		var v newer
		err := json.Unmarshal(old, &v)
		v.Count *= 2
		next, _ := json.Marshal(v)
		return next, err
	}
	k, err := NewKind[newer](d, "things", 3, map[int]Migration{1: rename, 2: double})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := k.Load("old"); err != nil || got != (newer{"old", 10}) {
		t.Errorf("%+v, %v", got, err)
	}
	if err := k.Save("old", newer{"new", 1}); err != nil {
		t.Fatal(err)
	}
	if got, err := k.Load("old"); err != nil || got != (newer{"new", 1}) {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := NewKind[newer](d, "things", 4, map[int]Migration{1: rename, 2: double}); err == nil {
		t.Error("a format that nothing leads to is taken")
	}
}

// TestView: records are read while another program has the directory.
func TestView(t *testing.T) {
	path := t.TempDir()
	d := openTest(t, path, osDisk{})
	defer d.Close()
	seen := things(t, View(path, quiet))
	for n := range 3 {
		if err := things(t, d).Save("a", thing{"a", n}); err != nil {
			t.Fatal(err)
		}
		if got, err := seen.Load("a"); err != nil || got.Count != n {
			t.Errorf("%+v, %v", got, err)
		}
	}
}

func FuzzRecord(f *testing.F) {
	whole, _ := encode(1, thing{"x", 7})
	for _, seed := range [][]byte{whole, {}, []byte("{\"format\":1,\"crc32c\":0}\n\n"), []byte("\n")} {
		f.Add(seed)
	}
	k := &kind{format: 1}
	f.Fuzz(func(t *testing.T, contents []byte) {
		var got thing
		if k.decode(contents, &got) != nil {
			return
		}
		again, err := encode(1, got)
		var back thing
		if err != nil || k.decode(again, &back) != nil || back != got {
			t.Errorf("%q: %+v, %+v, %v", contents, got, back, err)
		}
	})
}

func ExampleKind() {
	path, _ := os.MkdirTemp("", "state-")
	defer os.RemoveAll(path)
	d, err := Open(path, slog.Default())
	if err != nil {
		panic(err)
	}
	defer d.Close()
	k, err := NewKind[thing](d, "things", 1, nil)
	if err != nil {
		panic(err)
	}
	err = k.Save("one", thing{"first", 1})
	record, loaded := k.Load("one")
	fmt.Println(record.Name, err, loaded)
	// Output: first <nil> <nil>
}
