package image

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

func identityOf(t *testing.T, s *Store, ref string) string {
	t.Helper()
	identity, err := s.Identity(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	return identity
}

// TestIdentity: the host is another when a package or a program of it is, an image when
// its content is, and of a directory nobody can tell.
func TestIdentity(t *testing.T) {
	s := openStore(t)
	s.hostRoot = fakeHost(t)
	put(t, s.hostRoot, "var/lib/dpkg/status", "one", 0o644)
	put(t, s.hostRoot, "usr/local/lib/python3/dist-packages/a", "", 0o644)
	was := identityOf(t, s, "host")
	for _, changed := range []string{"var/lib/dpkg/status", "usr/bin/new", "usr/local/lib/python3/dist-packages/b"} {
		if again := identityOf(t, s, ""); again != was {
			t.Errorf("nothing has changed before %s, and it is %q and not %q", changed, again, was)
		}
		put(t, s.hostRoot, changed, "two more", 0o644)
		check(t, os.Chtimes(filepath.Dir(filepath.Join(s.hostRoot, changed)), time.Now(), time.Now().Add(time.Minute)))
		now := identityOf(t, s, "host")
		if now == was {
			t.Errorf("%s is not noticed", changed)
		}
		was = now
	}
	if got := identityOf(t, s, t.TempDir()); got != "" {
		t.Errorf("a directory is %q", got)
	}
	archive := bigLayout(t)
	if got := identityOf(t, s, archive); got == "" || got != resolve(t, s, archive).Digest {
		t.Errorf("a layout is %q", got)
	}
}
