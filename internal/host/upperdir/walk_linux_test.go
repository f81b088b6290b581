package upperdir

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"aether/internal/unprivtest"
	"aether/sandbox"

	"golang.org/x/sys/unix"
)

// log is a Visitor that remembers what it was shown.
type log struct {
	seen []string
	skip string
}

func (l *log) Enter(e *Entry) error {
	l.seen = append(l.seen, "enter "+e.Path)
	if e.Path == l.skip {
		return fs.SkipDir
	}
	return nil
}

func (l *log) Visit(e *Entry) error {
	l.seen = append(l.seen, []string{"unknown ", "dir ", "file ", "link ", "fifo ", "socket ", "whiteout "}[e.Kind]+e.Path)
	if e.Kind == File {
		file, err := e.Open()
		if err != nil {
			return err
		}
		return file.Close()
	}
	return nil
}

func (l *log) Leave(e *Entry) error {
	l.seen = append(l.seen, "leave "+e.Path)
	return nil
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func open(t testing.TB, dir string) *os.File {
	t.Helper()
	file, err := os.Open(dir)
	check(t, err)
	t.Cleanup(func() { file.Close() })
	return file
}

func walkLog(t testing.TB, dir string, l *log) []string {
	t.Helper()
	check(t, Walk(context.Background(), open(t, dir), l))
	return l.seen
}

func TestWalkShowsEveryKind(t *testing.T) {
	dir := t.TempDir()
	check(t, os.Mkdir(filepath.Join(dir, "d"), 0o755))
	check(t, os.WriteFile(filepath.Join(dir, "d", "f"), []byte("x"), 0o644))
	check(t, os.Symlink("/", filepath.Join(dir, "d", "l")))
	check(t, syscall.Mkfifo(filepath.Join(dir, "p"), 0o600))
	check(t, unix.Mknod(filepath.Join(dir, "s"), unix.S_IFSOCK|0o600, 0))
	check(t, unix.Mknod(filepath.Join(dir, "w"), unix.S_IFCHR, 0))
	got := walkLog(t, dir, &log{})
	if got[0] != "enter ." || got[len(got)-1] != "leave ." || slices.Index(got, "enter d") > slices.Index(got, "file d/f") {
		t.Errorf("the order is %v", got)
	}
	slices.Sort(got)
	want := "enter .;enter d;fifo p;file d/f;leave .;leave d;link d/l;socket s;whiteout w"
	if all := strings.Join(got, ";"); all != want {
		t.Errorf("got %s, want %s", all, want)
	}
	if got := walkLog(t, dir, &log{skip: "d"}); slices.Contains(got, "file d/f") || slices.Contains(got, "leave d") {
		t.Errorf("skipped, and yet %v", got)
	}
}

// TestWalkOpensWhatIsClosedToItsOwner runs as an ordinary user, whom modes bind.
func TestWalkOpensWhatIsClosedToItsOwner(t *testing.T) {
	if os.Geteuid() == 0 {
		unprivtest.AsOrdinaryUser(t, []string{"-test.run=^TestWalk|^TestExtents$"})
		return
	}
	dir := t.TempDir()
	closed := filepath.Join(dir, "closed")
	check(t, os.MkdirAll(filepath.Join(closed, "in"), 0o755))
	check(t, os.WriteFile(filepath.Join(closed, "in", "f"), []byte("x"), 0))
	check(t, os.Chmod(filepath.Join(closed, "in"), 0o100))
	check(t, os.Chmod(closed, 0))
	t.Cleanup(func() { os.Chmod(closed, 0o700); os.Chmod(filepath.Join(closed, "in"), 0o700) })
	if got := walkLog(t, dir, &log{}); !slices.Contains(got, "file closed/in/f") {
		t.Errorf("got %v", got)
	}
	info, err := os.Stat(closed)
	check(t, err)
	if info.Mode().Perm() != 0 {
		t.Errorf("the mode was left %v", info.Mode())
	}
}

func TestWalkIsBounded(t *testing.T) {
	dir := t.TempDir()
	check(t, os.MkdirAll(filepath.Join(dir, strings.Repeat("d/", MaxDepth)), 0o755))
	err := Walk(context.Background(), open(t, dir), &log{})
	if sandbox.ClassOf(err) != sandbox.Exhausted {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := Walk(ctx, open(t, dir), &log{}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

func TestExtents(t *testing.T) {
	file, err := os.Create(filepath.Join(t.TempDir(), "sparse"))
	check(t, err)
	defer file.Close()
	const piece = 1 << 20
	for _, at := range []int64{piece, 3 * piece, 3*piece + 64<<10} {
		_, err := file.WriteAt(make([]byte, 4096), at)
		check(t, err)
	}
	check(t, file.Truncate(8*piece))
	got, err := Extents(file, 8*piece, piece)
	check(t, err)
	want := []Extent{{piece, 4096}, {3 * piece, 64<<10 + 4096}}
	if !slices.Equal(got, want) {
		if len(got) == 1 && got[0].Length == 8*piece {
			t.Skip("the file system of the temporary directory has no holes")
		}
		t.Errorf("got %v, want %v", got, want)
	}
}
