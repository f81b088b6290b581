package image

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"aether/internal/host/inroot"
	"aether/sandbox"
)

// arena is a directory for one layer, with something outside that must stay.
type arena struct{ layer, outside string }

func newArena(t testing.TB) arena {
	t.Helper()
	base := t.TempDir()
	a := arena{layer: filepath.Join(base, "layer"), outside: filepath.Join(base, "outside")}
	check(t, os.Mkdir(a.layer, 0o755))
	check(t, os.Mkdir(a.outside, 0o755))
	check(t, os.WriteFile(filepath.Join(a.outside, "secret"), []byte("untouched"), 0o600))
	return a
}

func (a arena) unpack(archive []byte, left *budget) error {
	return classed(unpack(context.Background(), bytes.NewReader(archive), a.layer, left))
}

// inspect checks that nothing got out and nothing armed got in.
func (a arena) inspect(t testing.TB) {
	t.Helper()
	entries, err := os.ReadDir(a.outside)
	check(t, err)
	if len(entries) != 1 || read(t, a.outside, "secret") != "untouched" {
		t.Errorf("outside the layer are now %v", entries)
	}
	info, err := os.Stat(filepath.Join(a.outside, "secret"))
	check(t, err)
	if info.Mode() != 0o600 || info.Sys().(*syscall.Stat_t).Nlink != 1 {
		t.Errorf("the file outside has mode %v and %d links", info.Mode(), info.Sys().(*syscall.Stat_t).Nlink)
	}
	check(t, filepath.WalkDir(a.layer, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return harmless(t, path, e)
	}))
}

func harmless(t testing.TB, path string, e fs.DirEntry) error {
	info, err := e.Info()
	if err != nil {
		return err
	}
	mode := info.Mode()
	if mode&(fs.ModeSetuid|fs.ModeSetgid) != 0 {
		t.Errorf("%s is armed: %v", path, mode)
	}
	if mode&fs.ModeDevice != 0 && info.Sys().(*syscall.Stat_t).Rdev != 0 {
		t.Errorf("%s is a device", path)
	}
	return nil
}

func plenty() *budget { return newBudget(limits{bytes: 1 << 20, entries: 1000}) }

// TestHostileLayers are layers that try to get out, to arm something, or to use
// up the host. None of them may be an Internal error.
func TestHostileLayers(t *testing.T) {
	deep := strings.Repeat("d/", maxDepth) + "f"
	outside := "/../../outside"
	cases := []struct {
		name    string
		entries []entry
		bad     bool
		absent  []string
		present []string
	}{
		{name: "climbing name", entries: []entry{file("../outside/x", "")}, bad: true},
		{name: "climbing in the middle", entries: []entry{file("a/../../outside/x", "")}, bad: true},
		{name: "absolute name", entries: []entry{file("/etc/x", "")}, present: []string{"etc/x"}},
		{name: "through a climbing link", entries: []entry{symlink("l", "../outside"), file("l/x", "")}, bad: true},
		{name: "through an absolute link", entries: []entry{symlink("l", "OUTSIDE"), file("l/x", "")}, bad: true},
		{name: "through a chain of links", entries: []entry{symlink("a", "b"), symlink("b", outside), file("a/x", "")}, bad: true},
		{name: "through a loop of links", entries: []entry{symlink("a", "b"), symlink("b", "a"), file("a/x", "")}, bad: true},
		{name: "through a link inside", entries: []entry{dir("real"), symlink("l", "/real"), file("l/x", "")}, present: []string{"real/x"}},
		{name: "directory over a link", entries: []entry{symlink("l", "OUTSIDE"), dir("l"), file("l/x", "")}, present: []string{"l/x"}},
		{name: "file over a link", entries: []entry{symlink("l", "OUTSIDE/secret"), file("l", "mine")}, present: []string{"l"}},
		{name: "mode through a link", entries: []entry{symlink("l", "OUTSIDE/secret"), {tar.Header{Name: "l", Typeflag: tar.TypeSymlink, Linkname: "OUTSIDE/secret", Mode: 0o7777}, ""}}},
		{name: "swapped link", entries: []entry{dir("b"), symlink("a", "b"), file("a/x", ""), symlink("a", outside), file("a/y", "")}, bad: true},
		{name: "directory to link", entries: []entry{dir("a"), file("a/x", ""), symlink("a", "OUTSIDE")}, bad: true},
		{name: "hard link that climbs", entries: []entry{hardlink("h", "../outside/secret")}, bad: true},
		{name: "hard link to an absolute path", entries: []entry{hardlink("h", "OUTSIDE/secret")}, bad: true},
		{name: "hard link through a link", entries: []entry{symlink("l", "OUTSIDE"), hardlink("h", "l/secret")}, bad: true},
		{name: "hard link to a link, then written", entries: []entry{symlink("s", "OUTSIDE/secret"), hardlink("h", "s"), file("h", "mine"), file("s", "mine")}, present: []string{"h", "s"}},
		{name: "hard link to itself", entries: []entry{file("f", "kept"), hardlink("f", "f")}, present: []string{"f"}},
		{name: "hard link to a directory", entries: []entry{dir("d"), hardlink("h", "d")}, bad: true},
		{name: "hard link to its own parent", entries: []entry{hardlink("l/x", "l")}, bad: true},
		{name: "hard link to the root", entries: []entry{hardlink("h", "/")}, bad: true},
		{name: "hard link to nothing", entries: []entry{hardlink("h", "nothing")}, bad: true},
		{name: "hard link to a whiteout", entries: []entry{file(".wh.x", ""), hardlink("h", ".wh.x")}, bad: true},
		{name: "devices", entries: []entry{special("null", tar.TypeChar), special("disk", tar.TypeBlock), special("pipe", tar.TypeFifo)}, absent: []string{"null", "disk"}, present: []string{"pipe"}},
		{name: "set-user-id", entries: []entry{{tar.Header{Name: "su", Mode: 0o6755}, ""}, {tar.Header{Name: "d", Typeflag: tar.TypeDir, Mode: 0o2755}, ""}}, present: []string{"su", "d"}},
		{name: "unknown kind", entries: []entry{special("odd", 'Z')}, bad: true},
		{name: "root as a link", entries: []entry{symlink("./", "OUTSIDE"), file("x", "")}, bad: true},
		{name: "root as a file", entries: []entry{file(".", "")}, bad: true},
		{name: "whiteout of nothing", entries: []entry{file("a/.wh.", "")}, bad: true},
		{name: "whiteout of the directory itself", entries: []entry{file("a/.wh..", "")}, bad: true},
		{name: "whiteout of the parent", entries: []entry{file("a/.wh...", "")}, bad: true},
		{name: "file within a whiteout", entries: []entry{file(".wh.a/b", "")}, bad: true},
		{name: "whiteout through a link", entries: []entry{symlink("l", "OUTSIDE"), file("l/.wh.secret", "")}, bad: true},
		{name: "opaque through a link", entries: []entry{symlink("l", "OUTSIDE"), file("l/.wh..wh..opq", "")}, present: []string{"l"}},
		{name: "whiteout below a file", entries: []entry{file("f", ""), file("f/.wh.x", "")}, bad: true},
		{name: "old book-keeping", entries: []entry{file(".wh..wh.plnk/1.2", ""), file(".wh..wh.aufs", "")}, absent: []string{".wh..wh.plnk", ".wh..wh.aufs"}},
		{name: "link without a target", entries: []entry{symlink("l", "")}, bad: true},
		{name: "link with a long target", entries: []entry{symlink("l", strings.Repeat("x", maxPath))}, bad: true},
		{name: "long name", entries: []entry{file(strings.Repeat("x/", maxPath), "")}, bad: true},
		{name: "long part", entries: []entry{file(strings.Repeat("x", maxComponent+1), "")}, bad: true},
		{name: "deep", entries: []entry{file(deep, "")}, bad: true},
		{name: "many bytes", entries: []entry{file("a", strings.Repeat("x", 1<<20)), file("b", "x")}, bad: true},
		{name: "many implied directories", entries: impliedTrees(20, 60), bad: true},
		{name: "many attributes", entries: []entry{{tar.Header{Name: "f", PAXRecords: map[string]string{"SCHILY.xattr.user.big": strings.Repeat("x", maxXattrs)}}, ""}}, bad: true},
		{name: "attributes of many files", entries: attributed(350, 3500, tar.TypeReg), bad: true},
		{name: "attributes of many directories", entries: attributed(40, maxXattrs-100, tar.TypeDir), bad: true},
		{name: "long targets of many links", entries: longLinks(300), bad: true},
		{name: "steering attributes", entries: []entry{{tar.Header{Name: "d", Typeflag: tar.TypeDir, Mode: 0o755, PAXRecords: map[string]string{"SCHILY.xattr.user.overlay.opaque": "y", "SCHILY.xattr.security.capability": "x"}}, ""}}, present: []string{"d"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			a := newArena(t)
			for i := range c.entries {
				c.entries[i].header.Linkname = strings.ReplaceAll(c.entries[i].header.Linkname, "OUTSIDE", a.outside)
			}
			err := a.unpack(tarOf(t, c.entries...), plenty())
			if c.bad {
				wantClass(t, err, sandbox.Invalid)
			} else {
				check(t, err)
			}
			a.inspect(t)
			for _, name := range c.absent {
				absent(t, a.layer, name)
			}
			for _, name := range c.present {
				if there, _ := exists(filepath.Join(a.layer, name)); !there {
					t.Errorf("%s is missing", name)
				}
			}
		})
	}
}

// attributed are entries that have nothing but attributes.
func attributed(count, size int, kind byte) []entry {
	var entries []entry
	for i := range count {
		entries = append(entries, entry{tar.Header{Name: fmt.Sprint("a", i), Typeflag: kind, Mode: 0o755,
			PAXRecords: map[string]string{"SCHILY.xattr.user.big": strings.Repeat("x", size)}}, ""})
	}
	return entries
}

func longLinks(count int) []entry {
	var entries []entry
	for i := range count {
		entries = append(entries, symlink(fmt.Sprint("l", i), strings.Repeat("x", maxPath-1)))
	}
	return entries
}

// TestRememberedIsBounded: attributes of directories are kept in memory until a layer
// ends.
func TestRememberedIsBounded(t *testing.T) {
	archive := tarOf(t, attributed(maxNames/maxXattrs+10, maxXattrs-100, tar.TypeDir)...)
	err := newArena(t).unpack(archive, newBudget(limits{bytes: 1 << 30, entries: 1 << 20}))
	wantClass(t, err, sandbox.Invalid)
	if err != nil && !strings.Contains(err.Error(), "attributes of directories") {
		t.Errorf("it is refused for something else: %v", err)
	}
}

// TestHoleEndsWithItsContext unpacks a file that is one hole: nothing is read of the
// archive while it is written.
func TestHoleEndsWithItsContext(t *testing.T) {
	const size = 1 << 30
	header := make([]byte, 3*512)
	for at, text := range map[int]string{0: "hole", 100: "0000644", 108: "0000000", 116: "0000000", 124: "00000000000", 136: "00000000000",
		148: "        ", 156: "S", 257: "ustar  ", 386: fmt.Sprintf("%011o", size), 398: "00000000000", 483: fmt.Sprintf("%011o", size)} {
		copy(header[at:], text)
	}
	sum := 0
	for _, b := range header[:512] {
		sum += int(b)
	}
	copy(header[148:], fmt.Sprintf("%06o\x00 ", sum))
	a := newArena(t)
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	err := unpack(ctx, bytes.NewReader(header), a.layer, newBudget(limits{bytes: 4 * size, entries: 10, overhead: 1 << 20}))
	info, missing := os.Stat(filepath.Join(a.layer, "hole"))
	if !errors.Is(err, context.Canceled) || missing == nil && info.Size() >= size {
		t.Errorf("%v, %v, %+v", err, missing, info)
	}
}

// impliedTrees are few entries that ask for many directories.
func impliedTrees(count, depth int) []entry {
	var entries []entry
	for i := range count {
		entries = append(entries, file(strings.Repeat(string(rune('a'+i))+"/", depth)+"f", ""))
	}
	return entries
}

func TestWhiteoutsBecomeOverlayWhiteouts(t *testing.T) {
	a := newArena(t)
	check(t, a.unpack(tarOf(t, file("d/.wh.first", ""), dir("d"), file("d/first", "stays"), file("d/.wh.gone", ""),
		dir("o"), file("o/.wh.useless", ""), file("o/.wh..wh..opq", ""), dir("both"), file(".wh.both", "")), plenty()))
	if read(t, a.layer, "d/first") != "stays" {
		t.Error("a whiteout hid an entry of its own layer")
	}
	info, err := os.Lstat(filepath.Join(a.layer, "d/gone"))
	check(t, err)
	if info.Mode().Type() != fs.ModeDevice|fs.ModeCharDevice {
		t.Errorf("the whiteout is %v", info.Mode())
	}
	absent(t, a.layer, "o/useless")
	for name, want := range map[string]string{"o": "y", "both": "y", "d": ""} {
		if got := attrsOf(t, filepath.Join(a.layer, name), "user.overlay.")["opaque"]; got != want {
			t.Errorf("%s is opaque: %q, want %q", name, got, want)
		}
	}
}

func attrsOf(t *testing.T, path, prefix string) map[string]string {
	t.Helper()
	f, err := os.Open(path)
	check(t, err)
	defer f.Close()
	attrs, err := inroot.Attrs(f, prefix)
	check(t, err)
	return attrs
}

func TestTruncatedArchives(t *testing.T) {
	whole := tarOf(t, file("a", strings.Repeat("x", 2000)), file("b", "y"))
	for _, size := range []int{100, 512, 700, 1600, 2600} {
		a := newArena(t)
		wantClass(t, a.unpack(whole[:size], plenty()), sandbox.Invalid)
		a.inspect(t)
	}
}

// FuzzUnpack feeds arbitrary archives: nothing gets out, and whatever fails is
// the archive's fault.
func FuzzUnpack(f *testing.F) {
	f.Add(tarOf(f, file("a/b", "x"), symlink("a/l", "../../outside"), file("a/l/x", "")))
	f.Add(tarOf(f, symlink("l", "/"), hardlink("h", "l"), file("h/x", "")))
	f.Add(tarOf(f, file("d/.wh.x", ""), file("d/.wh..wh..opq", ""), special("n", tar.TypeChar)))
	f.Add(tarOf(f, entry{tar.Header{Name: "p", Mode: 0o7777, Uid: 1 << 20, PAXRecords: map[string]string{"SCHILY.xattr.user.overlay.opaque": "y"}}, "z"}))
	f.Fuzz(func(t *testing.T, archive []byte) {
		a := newArena(t)
		err := a.unpack(archive, newBudget(limits{bytes: 64 << 10, entries: 64}))
		if err != nil && sandbox.ClassOf(err) != sandbox.Invalid {
			t.Errorf("class %v: %v", sandbox.ClassOf(err), err)
		}
		a.inspect(t)
	})
}

// FuzzEntries makes well-formed archives of all kinds of entries in all orders
// from a few names, which mutated bytes alone hardly ever do.
func FuzzEntries(f *testing.F) {
	f.Add([]byte{1, 0, 7, 0, 4, 9})
	f.Add([]byte{2, 4, 7, 3, 5, 4, 0, 5, 1})
	f.Fuzz(func(t *testing.T, script []byte) {
		a := newArena(t)
		names := []string{"a", "b", "a/b", "a/b/c", "l", "l/x", "b/secret", a.outside, "../outside", "../outside/secret", "/.", ".wh.a", "a/.wh.b", "a/.wh..wh..opq", "l/.wh.secret", "."}
		kinds := []byte{tar.TypeReg, tar.TypeDir, tar.TypeSymlink, tar.TypeLink, tar.TypeFifo, tar.TypeChar}
		var entries []entry
		for len(script) >= 3 && len(entries) < 32 {
			pick := func(b byte) string { return names[int(b)%len(names)] }
			entries = append(entries, entry{tar.Header{Typeflag: kinds[int(script[0])%len(kinds)], Name: pick(script[1]), Linkname: pick(script[2]), Mode: 0o6700 | int64(script[0])}, ""})
			script = script[3:]
		}
		if err := a.unpack(tarOf(t, entries...), plenty()); err != nil && sandbox.ClassOf(err) != sandbox.Invalid {
			t.Errorf("class %v: %v", sandbox.ClassOf(err), err)
		}
		a.inspect(t)
	})
}
