package access

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"aether/engine/state"
	"aether/sandbox"
)

var quiet = slog.New(slog.DiscardHandler)

func openKeys(t *testing.T, dir string) *Keys {
	t.Helper()
	k, err := OpenKeys(t.Context(), dir, quiet)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func createKey(t *testing.T, k *Keys, tenant string, operator bool, expires time.Time) (string, Key) {
	t.Helper()
	secret, key, err := k.Create(t.Context(), tenant, operator, expires)
	if err != nil {
		t.Fatal(err)
	}
	return secret, key
}

func checkClass(t *testing.T, what string, err error, want sandbox.Class) {
	t.Helper()
	if err == nil || sandbox.ClassOf(err) != want {
		t.Errorf("%s: %v, want %s", what, err, want)
	}
}

// TestKeysWhileAnEngineRuns: what another program does to keys counts at once in one
// that holds the lock of the state directory.
func TestKeysWhileAnEngineRuns(t *testing.T) {
	path := t.TempDir()
	engine, err := state.Open(path, quiet)
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close()
	running, other := openKeys(t, path), openKeys(t, path)
	secret, key := createKey(t, other, "acme", false, time.Time{})
	if !regexp.MustCompile(`^e2b_[0-9a-f]{40}$`).MatchString(secret) {
		t.Errorf("the key is %q", secret)
	}
	who, err := running.Authenticate(t.Context(), secret)
	if err != nil || who != (Caller{Tenant: "acme", Name: key.ID}) || KeyID(secret) != key.ID {
		t.Errorf("%+v, %v", who, err)
	}
	operator, _ := createKey(t, other, "house", true, time.Time{})
	if who, err := running.Authenticate(t.Context(), operator); err != nil || !who.Operator || who.Tenant != "house" {
		t.Errorf("%+v, %v", who, err)
	}
	for range 2 { // the second changes nothing
		if err := other.Revoke(t.Context(), key.ID); err != nil {
			t.Fatal(err)
		}
	}
	_, err = running.Authenticate(t.Context(), secret)
	checkClass(t, "revoked", err, sandbox.Denied)
	list, err := running.List(t.Context())
	if err != nil || len(list) != 2 || list[0].ID != key.ID || list[0].Revoked.IsZero() || !list[1].Revoked.IsZero() {
		t.Errorf("%+v, %v", list, err)
	}
}

func TestWrongKeys(t *testing.T) {
	k := openKeys(t, t.TempDir())
	secret, key := createKey(t, k, "acme", false, time.Time{})
	for _, wrong := range []string{"", "e2b_", secret[:43], secret + "0", strings.ToUpper(secret), " " + secret, secret[4:], "e2b_" + strings.Repeat("0", 40),
		"e2b_" + strings.Repeat("/", 40), "e2b_../../" + strings.Repeat("0", 34), key.ID, strings.Repeat("e2b_", 1<<20)} {
		_, err := k.Authenticate(t.Context(), wrong)
		checkClass(t, fmt.Sprintf("%.60q", wrong), err, sandbox.Denied)
	}
	checkClass(t, "revoke nothing", k.Revoke(t.Context(), "0123456789abcdef"), sandbox.NotFound)
	checkClass(t, "revoke a path", k.Revoke(t.Context(), "../../etc"), sandbox.Invalid)
	for _, tenant := range []string{"", "A", "a/b", "-a", strings.Repeat("a", 65)} {
		_, _, err := k.Create(t.Context(), tenant, false, time.Time{})
		checkClass(t, tenant, err, sandbox.Invalid)
	}
	_, _, err := k.Create(t.Context(), "acme", false, time.Now())
	checkClass(t, "expired from the beginning", err, sandbox.Invalid)
}

func TestKeysExpire(t *testing.T) {
	k := openKeys(t, t.TempDir())
	end := time.Now().Add(time.Hour)
	secret, _ := createKey(t, k, "acme", false, end)
	k.now = func() time.Time { return end.Add(-1) }
	if _, err := k.Authenticate(t.Context(), secret); err != nil {
		t.Error(err)
	}
	k.now = func() time.Time { return end }
	_, err := k.Authenticate(t.Context(), secret)
	checkClass(t, "at its end", err, sandbox.Denied)
}

// TestKeysAreNotOnDisk: whoever reads the state directory has no key.
func TestKeysAreNotOnDisk(t *testing.T) {
	path := t.TempDir()
	secret, _ := createKey(t, openKeys(t, path), "acme", false, time.Time{})
	files := 0
	err := filepath.WalkDir(path, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		files++
		text, err := os.ReadFile(name)
		if bytes.Contains(text, []byte(secret[4:])) || strings.Contains(name, secret[4:]) {
			t.Errorf("%s has the key", name)
		}
		if info, err := entry.Info(); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
		return err
	})
	if err != nil || files == 0 {
		t.Error(files, err)
	}
}

// TestDamagedKey: its record opens nothing, is set aside, and stops no other key. Nor
// does a record open anything that somebody copied to the id of another key.
func TestDamagedKey(t *testing.T) {
	k := openKeys(t, t.TempDir())
	good, goodKey := createKey(t, k, "acme", false, time.Time{})
	bad, badKey := createKey(t, k, "acme", false, time.Time{})
	moved, movedKey := createKey(t, k, "acme", false, time.Time{})
	record := func(key Key) string { return filepath.Join(k.view.Home(key.ID), "record") }
	text, err := os.ReadFile(record(goodKey))
	if err != nil {
		t.Fatal(err)
	}
	for key, contents := range map[Key][]byte{badKey: bytes.Replace(text, []byte("acme"), []byte("root"), 1), movedKey: text} {
		if err := os.WriteFile(record(key), contents, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, secret := range []string{bad, moved} {
		_, err := k.Authenticate(t.Context(), secret)
		checkClass(t, "damaged", err, sandbox.Denied)
	}
	if list, err := k.List(t.Context()); err != nil || len(list) != 2 {
		t.Errorf("%v, %v", list, err)
	}
	if _, err := k.Authenticate(t.Context(), good); err != nil {
		t.Error(err)
	}
}

func TestKeysOfManyAtOnce(t *testing.T) {
	path := t.TempDir()
	var work sync.WaitGroup
	for range 8 {
		k := openKeys(t, path)
		work.Go(func() {
			for range 5 {
				secret, key, err := k.Create(context.Background(), "acme", false, time.Time{})
				if err == nil {
					_, err = k.Authenticate(context.Background(), secret)
				}
				if err == nil {
					_, err = k.List(context.Background())
				}
				if err == nil {
					err = k.Revoke(context.Background(), key.ID)
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	work.Wait()
	list, err := openKeys(t, path).List(t.Context())
	if err != nil || len(list) != 40 {
		t.Errorf("%d keys, %v", len(list), err)
	}
}

func BenchmarkAuthenticate(b *testing.B) {
	k, err := OpenKeys(b.Context(), b.TempDir(), quiet)
	if err != nil {
		b.Fatal(err)
	}
	secret, _, err := k.Create(b.Context(), "acme", false, time.Time{})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := k.Authenticate(b.Context(), secret); err != nil {
			b.Fatal(err)
		}
	}
}
