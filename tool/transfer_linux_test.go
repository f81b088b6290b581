package tool

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// shareDir is a directory that a session shares, beside a file that it does not.
func shareDir(t *testing.T) (root *os.Root, dir, secret string) {
	t.Helper()
	above := t.TempDir()
	dir, secret = filepath.Join(above, "shared"), filepath.Join(above, "secret")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(secret, []byte("of the host"), 0o666); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	return root, dir, secret
}

// tryTransfers carries more than one answer could hold, there and back.
func tryTransfers(t *testing.T, s *Session, id, dir string) {
	big := bytes.Repeat([]byte("\x00\xffbytes\n"), 1<<20)
	if err := os.WriteFile(filepath.Join(dir, "big"), big, 0o644); err != nil {
		t.Fatal(err)
	}
	up := do[Transfer](t, s, "file_upload", args{"sandbox": id, "path": "/tmp/carried/big", "from": "big"})
	if up.Bytes == nil || *up.Bytes != int64(len(big)) || up.URL != "" {
		t.Errorf("it was carried as %+v", up)
	}
	shell(t, s, id, "cd /tmp/carried && cat big big >twice")
	down := do[Transfer](t, s, "file_download", args{"sandbox": id, "path": "/tmp/carried/twice", "to": "twice"})
	got, err := os.ReadFile(filepath.Join(dir, "twice"))
	if err != nil || !bytes.Equal(got, append(bytes.Clone(big), big...)) || *down.Bytes != int64(len(got)) {
		t.Errorf("it came back with %d bytes as %+v, %v", len(got), down, err)
	}
	if info, err := os.Stat(filepath.Join(dir, "twice")); err != nil || info.Mode() != 0o600 {
		t.Errorf("it is %v, %v", info.Mode(), err)
	}
}

// TestTransfersStayInTheSharedDirectory: no name or link of a call reads or writes a file of
// the host that is not shared, or replaces one that is; where nothing is shared, nothing is
// reached at all.
func TestTransfersStayInTheSharedDirectory(t *testing.T) {
	h := newHouse(t)
	root, dir, secret := shareDir(t)
	s := h.session(alice, Options{Own: true, Files: root})
	id := do[Sandbox](t, s, "sandbox_create", args{}).ID
	shell(t, s, id, "echo overwritten > /tmp/mine; truncate -s 1025M /tmp/huge")
	for name, to := range map[string]string{"link": secret, "up": "..", "rel": "../secret", "abs": filepath.Dir(dir)} {
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	need(t, "mkfifo")
	if out, err := exec.Command("mkfifo", filepath.Join(dir, "pipe")).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if err := os.WriteFile(filepath.Join(dir, "there"), []byte("there"), 0o644); err != nil {
		t.Fatal(err)
	}
	ways := []string{secret, "../secret", "there/../../secret", "link", "rel", "up/secret", "abs/secret", "/etc/passwd", "..", "/", "."}
	for _, way := range append(ways, "pipe", "nothing") {
		class := "denied"
		switch way {
		case "pipe", ".":
			class = "invalid"
		case "nothing":
			class = "not_found"
		}
		refuse(t, s, class, "file_upload", args{"sandbox": id, "path": "/tmp/got", "from": way})
	}
	for _, way := range append(ways, "there", "pipe", "up/new", "abs/new", "../new", "nowhere/new") {
		r := s.Do(t.Context(), "file_download", args{"sandbox": id, "path": "/tmp/mine", "to": way}.text(t))
		if r.Failure == nil || r.Failure.Field != "to" {
			t.Errorf("file_download to %s: %+v", way, r)
		}
	}
	if f := refuse(t, s, "conflict", "file_download", args{"sandbox": id, "path": "/tmp/mine", "to": "there"}); f.Remedy != "give another name" {
		t.Errorf("%+v", f)
	}
	refuse(t, s, "exhausted", "file_download", args{"sandbox": id, "path": "/tmp/huge", "to": "huge"})
	refuse(t, s, "not_found", "file_download", args{"sandbox": id, "path": "/tmp/none", "to": "none"})
	for file, want := range map[string]string{secret: "of the host", filepath.Join(dir, "there"): "there"} {
		if got, err := os.ReadFile(file); err != nil || string(got) != want {
			t.Errorf("%s has %q, %v", file, got, err)
		}
	}
	for _, where := range []string{dir, filepath.Dir(dir)} {
		entries, err := os.ReadDir(where)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if n := e.Name(); strings.HasPrefix(n, "new") || n == "huge" || n == "none" {
				t.Errorf("%s was left in %s", n, where)
			}
		}
	}
	if got := shell(t, s, id, "cat /tmp/got 2>/dev/null || echo none"); got != "none\n" {
		t.Errorf("it has %q", got)
	}
	alone := h.session(alice, Options{})
	for name, field := range map[string]string{"file_upload": "from", "file_download": "to"} {
		a := args{"sandbox": id, "path": "/tmp/mine", field: "there"}
		if f := refuse(t, alone, "unsupported", name, a); f.Field != field {
			t.Errorf("%+v", f)
		}
		delete(a, field)
		refuse(t, alone, "unsupported", name, a)
	}
}
