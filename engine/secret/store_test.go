package secret

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"

	"aether/engine/state"
	"aether/sandbox"
)

var ann, bob = ID{"ann", "TOKEN"}, ID{"bob", "TOKEN"}

// shelf is a state directory with secrets, and what was logged.
type shelf struct {
	t    testing.TB
	path string
	log  bytes.Buffer
	held int // by tenants
	*Store
	dir *state.Dir
}

func newShelf(t testing.TB) *shelf {
	s := &shelf{t: t, path: filepath.Join(t.TempDir(), "state")}
	s.open(nil)
	t.Cleanup(func() { s.dir.Close() })
	return s
}

func (s *shelf) open(before func() error) {
	s.t.Helper()
	log := slog.New(slog.NewTextHandler(&s.log, nil))
	var err error
	if before == nil {
		s.dir, err = state.Open(s.path, log)
	} else {
		s.dir, err = state.OpenWatched(s.path, log, before)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	s.held = 0
	if s.Store, err = Open(s.dir, log, func(string) func() { give, _ := s.take(); return give }); err != nil {
		s.t.Fatal(err)
	}
}

func (s *shelf) take() (func(), error) { s.held++; return func() { s.held-- }, nil }

func (s *shelf) restart() {
	s.t.Helper()
	if err := s.dir.Close(); err != nil {
		s.t.Fatal(err)
	}
	s.open(nil)
}

func (s *shelf) set(id ID, text string, hosts ...string) {
	s.t.Helper()
	if _, err := s.Set(id, value(s.t, text), hosts, nil, s.take); err != nil {
		s.t.Fatal(err)
	}
}

func (s *shelf) want(id ID, text string) {
	s.t.Helper()
	if v, _, err := s.Value(id); err != nil || string(v.Reveal()) != text {
		s.t.Errorf("%v is %q, %v", id, v.Reveal(), err)
	}
}

// wantLost wants an error that says what to do and has nothing of the value.
func (s *shelf) wantLost(id ID, words string) {
	s.t.Helper()
	v, hosts, err := s.Value(id)
	var e *sandbox.Error
	if !errors.As(err, &e) || e.Class != sandbox.Unavailable || e.Remedy == "" || !strings.Contains(err.Error(), words) || !v.IsZero() || strings.Contains(err.Error(), marker[:6]) {
		s.t.Errorf("%v is %q for %v, %v", id, v.Reveal(), hosts, err)
	}
}

func (s *shelf) key() string             { return filepath.Join(s.path, keyFile) }
func (s *shelf) record(id ID) string     { return filepath.Join(s.path, "secrets", id.record(), "record") }
func (s *shelf) read(name string) []byte { return must(os.ReadFile(name))(s.t) }

func must[T any](got T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
}

// TestTimesOfSecretsCountUp: by milliseconds, also where the clock stands still.
func TestTimesOfSecretsCountUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShelf(t)
		var last int64
		for range 3 {
			s.set(ann, marker)
			if told, _ := s.Find(ann); told.Updated.UnixMilli() <= last {
				t.Errorf("%v is not after %d", told, last)
			} else {
				last = told.Updated.UnixMilli()
			}
		}
	})
}

// TestSecretsAreKept: set, replaced, listed and removed, over restarts, with the value on
// disk in no file.
func TestSecretsAreKept(t *testing.T) {
	s := newShelf(t)
	if _, err := os.Stat(s.key()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("there is a key before the first value: %v", err)
	}
	s.set(ann, marker+"1", "api.example.com")
	s.set(bob, marker+"2")
	s.set(ID{"ann", "other"}, marker+"3")
	info := must(os.Stat(s.key()))(t)
	if info.Mode() != 0o600 || info.Size() != keyBytes {
		t.Errorf("the key file has %v, %d bytes", info.Mode(), info.Size())
	}
	for range 2 {
		s.want(ann, marker+"1")
		s.want(bob, marker+"2")
		list, more := s.Page(ID{}, 100, func(tenant string) bool { return tenant == "ann" })
		if len(list) != 2 || more || list[0].Name != "TOKEN" || fmt.Sprint(list[0].Hosts) != "[api.example.com]" || !list[0].Updated.Equal(list[0].Created) || s.held != 3 {
			t.Errorf("%+v, %v, %d held", list, more, s.held)
		}
		s.restart()
	}
	before, _ := s.Find(ann)
	s.set(ann, marker+"4") // keeps its hosts
	after, _ := s.Find(ann)
	if !after.Created.Equal(before.Created) || !after.Updated.After(before.Updated) || fmt.Sprint(after.Hosts) != "[api.example.com]" || s.held != 3 {
		t.Errorf("%+v became %+v", before, after)
	}
	if _, err := s.Set(ann, value(t, marker), []string{}, nil, s.take); err != nil {
		t.Fatal(err)
	}
	if v, hosts, err := s.Value(ann); err != nil || len(hosts) > 0 || string(v.Reveal()) != marker {
		t.Errorf("%v, %v", hosts, err)
	}
	noFileHas(t, s.path, marker)
	if err := s.Remove(ann); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		_, _, err := s.Value(ann)
		if sandbox.ClassOf(err) != sandbox.NotFound || sandbox.ClassOf(s.Remove(ann)) != sandbox.NotFound || s.held != 2 {
			t.Errorf("%v, %d held", err, s.held)
		}
		s.restart()
	}
}

func noFileHas(t *testing.T, dir, text string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		contents, err := os.ReadFile(name)
		if bytes.Contains(contents, []byte(text)) {
			t.Errorf("%s has it", name)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// TestSwappedFiles: a file that is put in the place of another does not open, and neither
// does one whose hosts were changed.
func TestSwappedFiles(t *testing.T) {
	other := ID{"ann", "OTHER"}
	for name, from := range map[string]ID{"another tenant's": bob, "another name's": other} {
		t.Run(name, func(t *testing.T) {
			s := newShelf(t)
			s.set(ann, marker+"1")
			s.set(bob, marker+"2")
			s.set(other, marker+"3")
			swapped := s.read(s.record(from))
			if err := os.WriteFile(s.record(ann), swapped, 0o600); err != nil {
				t.Fatal(err)
			}
			s.wantLost(ann, "does not decrypt")
			s.restart() // which sets it aside, since it says whose it is
			if _, known := s.Find(ann); known || !strings.Contains(s.log.String(), "record of another secret") {
				t.Errorf("it is known: %v\n%s", known, &s.log)
			}
			s.want(from, map[ID]string{bob: marker + "2", other: marker + "3"}[from])
			s.set(ann, marker+"4")
			s.want(ann, marker+"4")
		})
	}
}

// TestForgedRecords: whoever writes a record anew, with a right checksum, cannot have a
// value be another's or be sent elsewhere.
func TestForgedRecords(t *testing.T) {
	for name, forge := range map[string]func(mine, theirs *record){
		"the value of another": func(mine, theirs *record) { mine.Sealed = theirs.Sealed },
		"another's as a whole": func(mine, theirs *record) { mine.Sealed, mine.Hosts = theirs.Sealed, theirs.Hosts },
		"another host":         func(mine, _ *record) { mine.Hosts = []string{"evil.example"} },
		"any host":             func(mine, _ *record) { mine.Hosts = nil },
		"one byte":             func(mine, _ *record) { mine.Sealed[len(mine.Sealed)-1] ^= 1 },
		"a shorter one":        func(mine, _ *record) { mine.Sealed = mine.Sealed[:overhead+1] },
	} {
		t.Run(name, func(t *testing.T) {
			s := newShelf(t)
			s.set(ann, marker, "api.example.com")
			s.set(bob, marker+"2", "b.example.com")
			mine, theirs := must(s.records.Load(ann.record()))(t), must(s.records.Load(bob.record()))(t)
			forge(&mine, &theirs)
			if err := s.records.Save(ann.record(), mine); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				s.wantLost(ann, "does not decrypt")
				s.want(bob, marker+"2")
				s.restart()
			}
			s.set(ann, marker+"3")
			s.want(ann, marker+"3")
		})
	}
}

// TestDamagedSecret: a file that nobody can read is a clear error, is set aside by the next
// start, and stops no other.
func TestDamagedSecret(t *testing.T) {
	s := newShelf(t)
	s.set(ann, marker)
	s.set(bob, marker+"2")
	contents := s.read(s.record(ann))
	if err := os.WriteFile(s.record(ann), contents[:len(contents)/2], 0o600); err != nil {
		t.Fatal(err)
	}
	s.wantLost(ann, "damaged")
	s.want(bob, marker+"2")
	s.restart()
	damaged, err := filepath.Glob(filepath.Join(s.path, "damaged", "secrets-*.reason"))
	if _, known := s.Find(ann); known || err != nil || len(damaged) != 1 || s.held != 1 {
		t.Errorf("known %v, set aside %v, %v", known, damaged, err)
	}
	s.want(bob, marker+"2")
	s.set(ann, marker+"3")
	s.want(ann, marker+"3")
}

// TestKeyFile: one that is lost, changed or others' to read is an error for each value that
// says what to do; values can be removed, and set again as soon as there is a key.
func TestKeyFile(t *testing.T) {
	chmod := func(mode os.FileMode) func(*shelf) error {
		return func(s *shelf) error { return os.Chmod(s.key(), mode) }
	}
	for name, c := range map[string]struct {
		spoil    func(*shelf) error
		words    string
		settable bool
	}{
		"lost":      {func(s *shelf) error { return os.Remove(s.key()) }, "is gone", true},
		"changed":   {func(s *shelf) error { return os.WriteFile(s.key(), bytes.Repeat([]byte{7}, keyBytes), 0o600) }, "another key", true},
		"readable":  {chmod(0o640), "its mode is 0640", false},
		"writable":  {chmod(0o602), "its mode is 0602", false},
		"too short": {func(s *shelf) error { return os.Truncate(s.key(), keyBytes-1) }, "it has 31 bytes and not 32", false},
		"too long":  {func(s *shelf) error { return os.WriteFile(s.key(), make([]byte, 1000), 0o600) }, "it has 1000 bytes and not 32", false},
		"a link": {func(s *shelf) error {
			return errors.Join(os.Rename(s.key(), s.key()+"2"), os.Symlink(s.key()+"2", s.key()))
		}, "it is a link", false},
		"a folder":  {func(s *shelf) error { return errors.Join(os.Remove(s.key()), os.Mkdir(s.key(), 0o600)) }, "it is not a file", false},
		"another's": {func(s *shelf) error { return os.Chown(s.key(), 12345, -1) }, "belongs to the user 12345", false},
		"half made": {func(s *shelf) error { return os.Rename(s.key(), s.key()+".new") }, "is gone", true},
	} {
		t.Run(name, func(t *testing.T) {
			if name == "another's" && os.Geteuid() != 0 {
				t.Skip("only root gives files away")
			}
			s := newShelf(t)
			s.set(ann, marker)
			s.set(bob, marker+"2")
			if err := c.spoil(s); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				s.wantLost(ann, c.words)
				s.wantLost(bob, c.words)
				if _, more := s.Page(ID{}, 1, func(string) bool { return true }); !more {
					t.Error("they are not listed")
				}
				s.restart()
			}
			if err := s.Remove(bob); err != nil {
				t.Error(err)
			}
			_, err := s.Set(ann, value(t, marker+"3"), nil, nil, s.take)
			if !c.settable {
				if sandbox.ClassOf(err) != sandbox.Unavailable {
					t.Errorf("set: %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			s.want(ann, marker+"3")
		})
	}
}

// TestFullDiskOfSecrets: a disk that is full for any one write fails that call as
// exhausted; there is then the value before or the new one, nothing half, and no quota is
// taken for what is not there.
func TestFullDiskOfSecrets(t *testing.T) {
	s := newShelf(t)
	failed := 0
	for step := 0; ; step++ {
		dir, id := s.path, ID{"ann", fmt.Sprintf("N%d", step)}
		if err := s.Store.dir.Close(); err != nil {
			t.Fatal(err)
		}
		if step%2 == 0 { // every other time, the key is to be made too
			if err := os.Remove(filepath.Join(dir, keyFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				t.Fatal(err)
			}
		}
		writes, armed := 0, false
		s.open(func() error {
			if armed {
				if writes++; writes == step/2+1 {
					return syscall.ENOSPC
				}
			}
			return nil
		})
		armed = true
		had := s.held
		_, err := s.Set(id, value(t, marker), nil, nil, s.take)
		armed = false
		met := writes > step/2
		if err != nil {
			failed++
			if sandbox.ClassOf(err) != sandbox.Exhausted || strings.Contains(err.Error(), marker) {
				t.Errorf("step %d: %v", step, err)
			}
			if _, known := s.Find(id); known || s.held != had {
				t.Errorf("step %d: it is known, or counted: %d, %d", step, s.held, had)
			}
			s.set(id, marker)
		}
		s.want(id, marker)
		armed, writes = true, 0
		_, err = s.Set(id, value(t, marker+"2"), nil, nil, s.take)
		armed = false
		if v, _, unread := s.Value(id); unread != nil || string(v.Reveal()) != marker+"2" && (err == nil || string(v.Reveal()) != marker) {
			t.Errorf("step %d: %v and then %q, %v", step, err, v.Reveal(), unread)
		}
		s.restart()
		if _, known := s.Find(id); !known {
			t.Errorf("step %d: it is gone", step)
		}
		if !met && step%2 == 1 {
			break
		}
	}
	if failed < 5 {
		t.Errorf("%d calls failed", failed)
	}
	noFileHas(t, s.path, marker)
}

// TestBoundOfSecrets: there are as many as are kept in all, and refused ones take nothing.
func TestBoundOfSecrets(t *testing.T) {
	s := newShelf(t)
	s.set(ann, marker)
	s.count = maxAll
	_, err := s.Set(bob, value(t, marker), nil, nil, s.take)
	if sandbox.ClassOf(err) != sandbox.Exhausted || s.held != 1 || s.count != maxAll {
		t.Errorf("%v, %d held, %d counted", err, s.held, s.count)
	}
	s.set(ann, marker+"2") // is no new one
	s.count = 1
	full := errors.New("full")
	if _, err := s.Set(bob, value(t, marker), nil, nil, func() (func(), error) { return nil, full }); !errors.Is(err, full) || s.count != 1 {
		t.Errorf("%v, %d counted", err, s.count)
	}
	for _, id := range []ID{{"ann", ""}, {"ann", "a-b"}, {"ann", "1"}} {
		if _, err := s.Set(id, value(t, marker), nil, nil, s.take); sandbox.ClassOf(err) != sandbox.Invalid {
			t.Errorf("%v: %v", id, err)
		}
	}
	if _, err := s.Set(bob, Value{}, nil, nil, s.take); sandbox.ClassOf(err) != sandbox.Invalid {
		t.Error(err)
	}
}

// TestSecretsOfManyAtOnce: whoever reads while others write has a whole value.
func TestSecretsOfManyAtOnce(t *testing.T) {
	s := newShelf(t)
	s.Store.log = slog.New(slog.DiscardHandler)
	take := func() (func(), error) { return func() {}, nil }
	var all sync.WaitGroup
	for n := range 8 {
		id := ID{"ann", fmt.Sprintf("N%d", n%3)}
		all.Go(func() {
			for i := range 20 {
				switch _, err := s.Set(id, value(t, fmt.Sprint(marker, n, i)), nil, nil, take); {
				case err != nil:
					t.Error(err)
				case i%7 == 6:
					if err := s.Remove(id); err != nil && sandbox.ClassOf(err) != sandbox.NotFound {
						t.Error(err)
					}
				}
				if v, _, err := s.Value(id); err == nil && !strings.HasPrefix(string(v.Reveal()), marker) || err != nil && sandbox.ClassOf(err) != sandbox.NotFound {
					t.Errorf("%q, %v", v.Reveal(), err)
				}
				s.Page(ID{}, 10, func(string) bool { return true })
			}
		})
	}
	all.Wait()
	if len(s.all) != s.count || len(s.sorted) != s.count {
		t.Errorf("%d, %d, %d", len(s.all), len(s.sorted), s.count)
	}
}
