package disk

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"aether/image"
	"aether/internal/host/filetree"
	"aether/internal/host/inroot"
	"aether/sandbox"
)

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func put(t *testing.T, name string, content []byte, mode fs.FileMode) {
	t.Helper()
	check(t, os.MkdirAll(filepath.Dir(name), 0o755))
	check(t, os.WriteFile(name, content, 0o600))
	check(t, os.Chmod(name, mode))
}

func pattern(size int) []byte {
	b := make([]byte, size)
	for i := range b {
		b[i] = byte(i*7 + i>>8)
	}
	return b
}

// sizes are around the places where the layout of a file changes.
var sizes = []int{0, 1, 31, 32, 3000, 4031, 4032, 4033, 4095, 4096, 4097, 8192, 100_000}

// lower has one of everything that a disk can hold.
func lower(t *testing.T) string {
	dir := t.TempDir()
	for _, size := range sizes {
		put(t, filepath.Join(dir, "sizes", fmt.Sprint(size)), pattern(size), 0o640)
	}
	for i := range 700 { // several blocks of names
		put(t, filepath.Join(dir, "many", fmt.Sprintf("%s-%d", strings.Repeat("n", i%200), i)), nil, 0o644)
	}
	put(t, filepath.Join(dir, "names", "+before dot"), nil, 0o600)
	put(t, filepath.Join(dir, "names", ".hidden"), nil, 0o600)
	put(t, filepath.Join(dir, "names", strings.Repeat("x", 255)), nil, 0o600)
	put(t, filepath.Join(dir, "suid"), []byte("#!"), 0o755|fs.ModeSetuid)
	put(t, filepath.Join(dir, "linked"), []byte("two names"), 0o644)
	check(t, os.Link(filepath.Join(dir, "linked"), filepath.Join(dir, "sizes", "also linked")))
	check(t, os.Symlink("../"+strings.Repeat("l", 3000), filepath.Join(dir, "symlink")))
	check(t, exec.Command("mkfifo", "-m", "622", filepath.Join(dir, "fifo")).Run())
	check(t, os.Mkdir(filepath.Join(dir, "sticky"), 0o700))
	check(t, os.Chmod(filepath.Join(dir, "sticky"), fs.ModeSticky|0o777))
	old := time.Unix(-86400, 123456789)
	check(t, os.Chtimes(filepath.Join(dir, "suid"), old, old))
	if err := setAttr(filepath.Join(dir, "linked"), "user.note", "kept"); err != nil {
		t.Logf("no attributes here: %v", err)
	}
	return dir
}

func setAttr(path, name, value string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	return inroot.SetAttr(file, name, value)
}

// listing is everything that must survive, one line for each file.
func listing(t *testing.T, root string) string {
	t.Helper()
	var b strings.Builder
	check(t, filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		stat := info.Sys().(*syscall.Stat_t)
		name, _ := filepath.Rel(root, path)
		if name == "." || !strings.Contains(name, "/") && strings.Contains(" dev proc run sys tmp ", " "+name+" ") {
			return nil
		}
		fmt.Fprintf(&b, "%s %v %d:%d", name, info.Mode(), stat.Uid, stat.Gid)
		if !e.IsDir() {
			fmt.Fprintf(&b, " %d links %d", info.Size(), stat.Nlink)
		}
		fmt.Fprintf(&b, " %d %s", info.ModTime().UnixNano(), contentOf(t, path, info))
		b.WriteByte('\n')
		return nil
	}))
	return b.String()
}

func contentOf(t *testing.T, path string, info fs.FileInfo) string {
	switch {
	case info.Mode()&fs.ModeSymlink != 0:
		target, err := os.Readlink(path)
		check(t, err)
		return target
	case info.Mode().IsRegular():
		text, err := os.ReadFile(path)
		check(t, err)
		file, err := os.Open(path)
		check(t, err)
		defer file.Close()
		attrs, err := inroot.Attrs(file, "user.")
		return fmt.Sprintf("%x %v %v", text[:min(64, len(text))], attrs, err) + fmt.Sprint(bytes.Equal(text, pattern(len(text))))
	}
	return ""
}

// mounted shows a disk as a directory.
func mounted(t *testing.T, disk string) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can mount a disk")
	}
	dir := t.TempDir()
	if out, err := exec.Command("mount", "-t", "erofs", "-o", "loop,ro", disk, dir).CombinedOutput(); err != nil {
		t.Skipf("this host cannot mount erofs: %s", out)
	}
	t.Cleanup(func() { check(t, exec.Command("umount", dir).Run()) })
	return dir
}

func store(t *testing.T) *Store {
	s, err := Open(filepath.Join(t.TempDir(), "disks"))
	check(t, err)
	s.fresh = 0
	return s
}

func ensure(t *testing.T, s *Store, root image.Root) *os.File {
	t.Helper()
	file, err := s.Ensure(t.Context(), root)
	check(t, err)
	t.Cleanup(func() { file.Close() })
	return file
}

func TestDiskHoldsEverything(t *testing.T) {
	source := lower(t)
	disk := ensure(t, store(t), image.Root{Layers: []string{source}})
	want := listing(t, source)
	if got := listing(t, mounted(t, disk.Name())); got != want {
		t.Errorf("the disk differs:\n%s", firstDifference(got, want))
	}
	if out, err := exec.Command("fsck.erofs", disk.Name()).CombinedOutput(); err != nil && !errors.Is(err, exec.ErrNotFound) {
		t.Errorf("fsck.erofs: %v: %s", err, out)
	}
}

func firstDifference(got, want string) string {
	gotLines, wantLines := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range min(len(gotLines), len(wantLines)) {
		if gotLines[i] != wantLines[i] {
			return fmt.Sprintf("got  %.300s\nwant %.300s", gotLines[i], wantLines[i])
		}
	}
	return fmt.Sprintf("got %d lines, want %d", len(gotLines), len(wantLines))
}

func TestLayersAreMerged(t *testing.T) {
	low, high, bound := t.TempDir(), t.TempDir(), t.TempDir()
	for _, name := range []string{"a/kept", "a/removed", "opaque/old", "file-to-dir", "dir-to-file/x", "usr/hidden", "replaced"} {
		put(t, filepath.Join(low, name), []byte("low"), 0o644)
	}
	for _, name := range []string{"a/added", "opaque/new", "file-to-dir/y", "dir-to-file", "replaced"} {
		put(t, filepath.Join(high, name), []byte("high"), 0o600)
	}
	put(t, filepath.Join(bound, "bin/tool"), []byte("bound"), 0o755)
	if err := exec.Command("mknod", filepath.Join(high, "a/removed"), "c", "0", "0").Run(); err != nil {
		t.Skipf("this host makes no whiteouts: %v", err)
	}
	if err := setAttr(filepath.Join(high, "opaque"), opaqueName, "y"); err != nil {
		t.Skipf("this file system has no attributes: %v", err)
	}
	root := image.Root{Layers: []string{low, high}, Binds: []image.Bind{{Source: bound, Target: "/usr"}}}
	made, err := scan(t.Context(), root)
	check(t, err)
	defer made.close()
	var names []string
	var visit func(at string, n *node)
	visit = func(at string, n *node) {
		for _, name := range n.names() {
			if child := n.children[name]; child.children != nil {
				visit(at+name+"/", child)
			} else {
				names = append(names, at+name)
			}
		}
	}
	visit("", made.root)
	want := "a/added a/kept dir-to-file file-to-dir/y opaque/new replaced usr/bin/tool"
	if got := strings.Join(names, " "); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got := made.root.children["replaced"].Mode & 0o777; got != 0o600 {
		t.Errorf("the lower layer's mode shows: %o", got)
	}
}

func TestSameInputSameDisk(t *testing.T) {
	source := lower(t)
	var disks [][]byte
	for range 2 {
		content, err := io.ReadAll(ensure(t, store(t), image.Root{Layers: []string{source}}))
		check(t, err)
		disks = append(disks, content)
	}
	if !bytes.Equal(disks[0], disks[1]) {
		t.Error("two disks of one directory differ")
	}
}

func TestDiskFollowsItsDirectory(t *testing.T) {
	source, s := t.TempDir(), store(t)
	root := image.Root{Layers: []string{source}}
	put(t, filepath.Join(source, "file"), []byte("before"), 0o644)
	first := ensure(t, s, root)
	if again := ensure(t, s, root); again.Name() != first.Name() {
		t.Errorf("an unchanged directory made another disk: %s, %s", first.Name(), again.Name())
	}
	put(t, filepath.Join(source, "file"), []byte("after!"), 0o644)
	second := ensure(t, s, root)
	if second.Name() == first.Name() {
		t.Fatal("a changed directory has the old disk")
	}
	if _, err := os.Stat(first.Name()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the old disk stays: %v", err)
	}
	for want, disk := range map[string]*os.File{"before": first, "after!": second} {
		if content, err := io.ReadAll(disk); err != nil || !bytes.Contains(content, []byte(want)) {
			t.Errorf("%s is not on its disk: %v", want, err)
		}
	}
}

func TestLookIsShared(t *testing.T) {
	source, s := t.TempDir(), store(t)
	root := image.Root{Layers: []string{source}}
	s.fresh = time.Hour
	first := ensure(t, s, root)
	put(t, filepath.Join(source, "file"), nil, 0o644)
	if again := ensure(t, s, root); again.Name() != first.Name() {
		t.Error("a fresh look was not used")
	}
	check(t, os.Remove(first.Name()))
	if made := ensure(t, s, root); made.Name() == first.Name() {
		t.Error("a disk that is gone was not made from what is there now")
	}
}

func TestFixedImageIsNotScannedAgain(t *testing.T) {
	source, s := t.TempDir(), store(t)
	put(t, filepath.Join(source, "file"), []byte("content"), 0o644)
	root := image.Root{Digest: "sha256:00", Layers: []string{source}}
	first := ensure(t, s, root)
	check(t, os.RemoveAll(source))
	if again := ensure(t, s, root); again.Name() != first.Name() {
		t.Error("an image of one digest has two disks")
	}
}

func TestManyWantOneDisk(t *testing.T) {
	root, s := image.Root{Layers: []string{lower(t)}}, store(t)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			file, err := s.Ensure(t.Context(), root)
			if err != nil {
				t.Error(err)
				return
			}
			file.Close()
		})
	}
	all.Wait()
	if entries, err := os.ReadDir(s.dir); err != nil || len(entries) != 3 { // one disk, work and locks
		t.Errorf("left: %v, %v", entries, err)
	}
}

func TestFailedDiskLeavesNothing(t *testing.T) {
	s := store(t)
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	file := filepath.Join(t.TempDir(), "file")
	put(t, file, nil, 0o644)
	holed := t.TempDir()
	put(t, filepath.Join(holed, "hole"), nil, 0o644)
	if err := os.Truncate(filepath.Join(holed, "hole"), maxBytes+1); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		ctx   context.Context
		root  image.Root
		class sandbox.Class
	}{
		"cancelled": {cancelled, image.Root{Layers: []string{lower(t)}}, sandbox.Internal},
		"missing":   {t.Context(), image.Root{Layers: []string{"/nowhere/at/all"}}, sandbox.NotFound},
		"a hole":    {t.Context(), image.Root{Layers: []string{holed}}, sandbox.Invalid},
		"no dir":    {t.Context(), image.Root{Layers: []string{file}}, sandbox.Internal},
	} {
		if disk, err := s.Ensure(c.ctx, c.root); err == nil || sandbox.ClassOf(err) != c.class {
			t.Errorf("%s: %v, %v", name, disk, err)
		}
	}
	for _, dir := range []string{"work", "locks"} {
		if left, err := os.ReadDir(filepath.Join(s.dir, dir)); err != nil || len(left) > 0 {
			t.Errorf("%s holds %v, %v", dir, left, err)
		}
	}
}

// A file that shrinks between the look at it and its copying is told, not padded.
func TestShrinkingFileIsToldOf(t *testing.T) {
	for _, size := range []int{100, 100_000} {
		source := t.TempDir()
		put(t, filepath.Join(source, "file"), pattern(size), 0o644)
		made, err := scan(t.Context(), image.Root{Layers: []string{source}})
		check(t, err)
		defer made.close()
		check(t, os.Truncate(filepath.Join(source, "file"), 10))
		out, err := os.Create(filepath.Join(t.TempDir(), "disk"))
		check(t, err)
		defer out.Close()
		var e *sandbox.Error
		if err := write(t.Context(), out, made); !errors.As(err, &e) || e.Class != sandbox.Unavailable || !e.Retry {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
}

func TestDeadWorkIsReaped(t *testing.T) {
	s := store(t)
	put(t, s.workFile("dead"), []byte("half a disk"), 0o600)
	if _, err := Open(s.dir); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(s.workFile("dead")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a dead program's work stays: %v", err)
	}
}

func TestPackAttrs(t *testing.T) {
	if b, err := packAttrs(nil); b != nil || err != nil {
		t.Errorf("no attributes are %x, %v", b, err)
	}
	b, err := packAttrs(map[string]string{"user.a": "xyz", "security.capability": "c"})
	check(t, err)
	want := append(make([]byte, attrHeader), "\x0a\x06\x01\x00capabilityc\x00\x01\x01\x03\x00axyz"...)
	if !bytes.Equal(b, want) || attrCount(len(b)) != uint16((len(b)-attrHeader)/4+1) {
		t.Errorf("got  %q\nwant %q", b, want)
	}
	if _, err := packAttrs(map[string]string{"user.a": strings.Repeat("x", 1<<16-1), "user.b": strings.Repeat("x", 1<<16-1),
		"user.c": strings.Repeat("x", 1<<16-1), "user.d": strings.Repeat("x", 1<<16-1), "user.e": strings.Repeat("x", 1<<16-1)}); sandbox.ClassOf(err) != sandbox.Invalid {
		t.Errorf("too many bytes: %v", err)
	}
}

// Content behind an inode never crosses into another block: kernels refuse it.
func TestInlineContentStaysInItsBlock(t *testing.T) {
	var nodes []*node
	for i := range 5000 {
		nodes = append(nodes, &node{Info: filetree.Info{Mode: 0o100644, Size: int64(i * 37 % 5000)}})
	}
	if _, err := layOut(nodes); err != nil {
		t.Fatal(err)
	}
	end := int64(0)
	for _, n := range nodes {
		start := n.offset + inodeSize
		if n.offset < end || n.offset%slotSize != 0 {
			t.Fatalf("an inode at %d after the end at %d", n.offset, end)
		}
		end = start
		if n.inline {
			end += n.Size
			if start/blockSize != (end-1)/blockSize {
				t.Fatalf("%d bytes at %d cross a block", n.Size, start)
			}
		}
	}
}

// TestCollectDisks: those of roots that are needed stay, and whoever has one open keeps it.
func TestCollectDisks(t *testing.T) {
	s := store(t)
	needed, other := image.Root{Layers: []string{lower(t)}}, image.Root{Layers: []string{lower(t)}}
	kept, open := ensure(t, s, needed), ensure(t, s, other)
	for _, dry := range []bool{true, false} {
		gone, err := s.Collect([]image.Root{needed}, dry)
		check(t, err)
		if len(gone) != 1 || gone[0].Kind != "disk" || gone[0].Name != filepath.Base(open.Name()) || gone[0].Bytes == 0 {
			t.Errorf("%+v", gone)
		}
		if _, err := os.Stat(open.Name()); os.IsNotExist(err) == dry {
			t.Errorf("after a dry run (%v): %v", dry, err)
		}
	}
	if _, err := os.Stat(kept.Name()); err != nil {
		t.Error(err)
	}
	if _, err := open.ReadAt(make([]byte, 1), 0); err != nil {
		t.Error(err)
	}
}
