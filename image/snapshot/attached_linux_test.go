package snapshot

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"aether/sandbox"
)

// keepWith makes a snapshot of an empty directory with something attached.
func keepWith(t *testing.T, store *Store, attached map[string]string) (dir string, rec Record) {
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
	for name, content := range attached {
		file, err := draft.Attach(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := file.WriteString(content); err != nil || file.Close() != nil {
			t.Fatal(err)
		}
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

func TestAttachedContents(t *testing.T) {
	store, err := Open(filepath.Join(t.TempDir(), "store"))
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	want := map[string]string{"one": "content", "same": "content", "empty": ""}
	dir, rec := keepWith(t, store, want)
	if _, err := store.Reap(t.Context()); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{"one": "content", "same": "content", "empty": "", "ONE": "content"} {
		name = strings.ToLower(name) // one is opened again, when it is known
		file, err := store.OpenAttached(t.Context(), dir, rec, name)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(file)
		if err != nil || string(got) != content {
			t.Errorf("%s is %q, %v", name, got, err)
		}
		file.Close()
	}
	if rec.Attached["one"] != rec.Attached["same"] {
		t.Error("equal contents are kept twice")
	}
	wantClass(t, store, dir, rec, "other", sandbox.NotFound)
	blob := filepath.Join(dir, "blobs", rec.Attached["one"])
	if err := os.Remove(blob); err != nil {
		t.Fatal(err)
	}
	wantClass(t, store, dir, rec, "one", sandbox.Invalid)
	if err := os.WriteFile(blob, []byte("Content"), 0o400); err != nil {
		t.Fatal(err)
	}
	wantClass(t, store, dir, rec, "one", sandbox.Invalid)
}

func wantClass(t *testing.T, store *Store, dir string, rec Record, name string, class sandbox.Class) {
	t.Helper()
	file, err := store.OpenAttached(t.Context(), dir, rec, name)
	if err == nil {
		file.Close()
	}
	if sandbox.ClassOf(err) != class {
		t.Errorf("%s: %v", name, err)
	}
}

func TestRecordsWithOddAttachmentsAreRefused(t *testing.T) {
	digest := strings.Repeat("a", 64)
	for name, attached := range map[string]string{
		"no digest":  `{"a":"../../etc/passwd"}`,
		"no name":    `{"":"` + digest + `"}`,
		"long name":  `{"` + strings.Repeat("n", 65) + `":"` + digest + `"}`,
		"no content": `{"a":""}`,
	} {
		_, err := parseRecord([]byte(`{"format":1,"image":"","manifest":"` + digest + `","entries":0,"created":"2000-01-01T00:00:00Z","attached":` + attached + `}`))
		if sandbox.ClassOf(err) != sandbox.Invalid {
			t.Errorf("%s: %v", name, err)
		}
	}
}
