package upperdir

import (
	"archive/tar"
	"bytes"
	"errors"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"aether/sandbox"

	"golang.org/x/sys/unix"
)

var long = time.Date(2001, 2, 3, 4, 5, 6, 789, time.UTC)

// fillUpper makes one of each kind of entry.
func fillUpper(t *testing.T, upper string) {
	t.Helper()
	check(t, os.MkdirAll(upper+"/dir/deep", 0o755))
	check(t, os.WriteFile(upper+"/dir/file", []byte("text"), 0o640))
	check(t, os.Chtimes(upper+"/dir/file", long, long))
	check(t, os.Link(upper+"/dir/file", upper+"/dir/deep/hard"))
	check(t, os.Symlink("../nowhere", upper+"/dir/soft"))
	check(t, unix.Mkfifo(upper+"/dir/fifo", 0o622))
	check(t, os.Chmod(upper+"/dir/fifo", 0o622))
	socket, err := net.Listen("unix", upper+"/s")
	check(t, err)
	socket.(*net.UnixListener).SetUnlinkOnClose(false)
	check(t, socket.Close())
	check(t, unix.Mknod(upper+"/removed", unix.S_IFCHR, 0))
	check(t, os.Mkdir(upper+"/opaque", 0o700))
	hole, err := os.Create(upper + "/hole")
	check(t, err)
	_, err = hole.WriteAt([]byte("end"), 8<<20)
	check(t, errors.Join(err, hole.Truncate(16<<20), hole.Close()))
	check(t, os.WriteFile(upper+"/name\n\xff", nil, 0o600))
	check(t, os.Chtimes(upper+"/dir", long, long))
}

// fillImage makes other things by the same names.
func fillImage(t *testing.T, root string) {
	t.Helper()
	for _, dir := range []string{"/removed/below", "/opaque/below", "/dir/soft", "/tmp"} {
		check(t, os.MkdirAll(root+dir, 0o755))
	}
	check(t, os.WriteFile(root+"/dir/deep", nil, 0o600))
	check(t, os.WriteFile(root+"/dir/image", []byte("image"), 0o600))
}

// TestPack takes one of each kind of entry through an archive, over an image that has
// other things by the same names.
func TestPack(t *testing.T) {
	upper, root, other := t.TempDir(), t.TempDir(), t.TempDir()
	fillUpper(t, upper)
	fillImage(t, root)
	check(t, os.WriteFile(other+"/beside", []byte("beside"), 0o600))
	hasRecords := unix.Setxattr(upper+"/opaque", trustedOpaqueName, []byte("y"), 0) == nil // root alone may
	hasAttrs := unix.Setxattr(upper+"/dir/file", "user.note", []byte("a\x00=b"), 0) == nil

	var archive bytes.Buffer
	check(t, Pack(t.Context(), &archive, Tree{Dir: open(t, upper)}, Tree{At: "tmp", Dir: open(t, other)}))
	if archive.Len() > 1<<20 {
		t.Errorf("the holes are in the archive, of %d bytes", archive.Len())
	}
	check(t, Unpack(t.Context(), &archive, open(t, root)))

	checkFiles(t, root)
	checkKinds(t, root)
	checkHole(t, root+"/hole")
	for name, wanted := range map[string]bool{"removed": true, "opaque/below": hasRecords} {
		if _, err := os.Lstat(filepath.Join(root, name)); wanted && !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: %v", name, err)
		}
	}
	value := make([]byte, 16)
	if n, err := unix.Getxattr(root+"/dir/file", "user.note", value); hasAttrs && (err != nil || string(value[:n]) != "a\x00=b") {
		t.Errorf("%q, %v", value, err)
	}
}

func checkFiles(t *testing.T, root string) {
	t.Helper()
	for name, want := range map[string]string{"dir/file": "text", "dir/deep/hard": "text", "dir/image": "image", "tmp/beside": "beside", "name\n\xff": ""} {
		if got, err := os.ReadFile(filepath.Join(root, name)); err != nil || string(got) != want {
			t.Errorf("%q: %q, %v", name, got, err)
		}
	}
	file, err := os.Stat(root + "/dir/file")
	check(t, err)
	hard, err := os.Stat(root + "/dir/deep/hard")
	check(t, err)
	dir, err := os.Stat(root + "/dir")
	check(t, err)
	if !os.SameFile(file, hard) || file.Mode() != 0o640 || !file.ModTime().Equal(long) || !dir.ModTime().Equal(long) {
		t.Errorf("%v, %v, %v", file, hard, dir)
	}
}

func checkKinds(t *testing.T, root string) {
	t.Helper()
	if to, err := os.Readlink(root + "/dir/soft"); err != nil || to != "../nowhere" {
		t.Errorf("%q, %v", to, err)
	}
	if info, err := os.Lstat(root + "/dir/fifo"); err != nil || info.Mode() != os.ModeNamedPipe|0o622 {
		t.Errorf("%v, %v", info, err)
	}
	if info, err := os.Lstat(root + "/s"); err != nil || info.Mode().Type() != os.ModeSocket {
		t.Errorf("%v, %v", info, err)
	}
}

func checkHole(t *testing.T, name string) {
	t.Helper()
	var st unix.Stat_t
	check(t, unix.Stat(name, &st))
	content, err := os.ReadFile(name)
	if err != nil || len(content) != 16<<20 || string(content[8<<20:8<<20+3]) != "end" || st.Blocks*512 > 1<<20 {
		t.Errorf("it has %d bytes in %d blocks, %v", len(content), st.Blocks, err)
	}
}

// TestHostileArchives: an archive comes from a guest.
func TestHostileArchives(t *testing.T) {
	victim := t.TempDir()
	for name, entries := range map[string][]tar.Header{
		"up":         {{Name: "../up", Typeflag: tar.TypeReg}},
		"inside up":  {{Name: "a/../../up", Typeflag: tar.TypeReg}},
		"absolute":   {{Name: victim + "/up", Typeflag: tar.TypeReg}},
		"by a link":  {{Name: "l", Typeflag: tar.TypeSymlink, Linkname: victim}, {Name: "l/up", Typeflag: tar.TypeReg}},
		"hard":       {{Name: "up", Typeflag: tar.TypeLink, Linkname: "../../../../../../etc/hostname"}},
		"hard, link": {{Name: "l", Typeflag: tar.TypeSymlink, Linkname: "/etc"}, {Name: "up", Typeflag: tar.TypeLink, Linkname: "l/hostname"}},
		"directory":  {{Name: "l", Typeflag: tar.TypeSymlink, Linkname: victim}, {Name: "l/up/", Typeflag: tar.TypeDir}},
		"extent":     {{Name: "f", Typeflag: tar.TypeReg, PAXRecords: map[string]string{sizeRecord: "-1"}}},
		"attribute":  {{Name: "f", Typeflag: tar.TypeReg, PAXRecords: map[string]string{attrRecord + "7472757374": "00"}}},
		"unknown":    {{Name: "f", Typeflag: tar.TypeCont}},
	} {
		var archive bytes.Buffer
		writer := tar.NewWriter(&archive)
		for _, h := range entries {
			h.Format, h.Uid, h.Gid = tar.FormatPAX, os.Getuid(), os.Getgid()
			check(t, writer.WriteHeader(&h))
		}
		check(t, writer.Close())
		root := t.TempDir()
		if err := Unpack(t.Context(), &archive, open(t, root)); err == nil {
			t.Errorf("%s: it was taken", name)
		}
		if left, err := os.ReadDir(victim); err != nil || len(left) > 0 {
			t.Fatalf("%s: %v, %v", name, left, err)
		}
		if _, err := os.Lstat(filepath.Join(filepath.Dir(root), "up")); err == nil {
			t.Fatalf("%s: it came out", name)
		}
	}
}

// TestUnpackOfHalf: what was cut off is noticed.
func TestUnpackOfHalf(t *testing.T) {
	upper := t.TempDir()
	check(t, os.WriteFile(upper+"/file", bytes.Repeat([]byte("x"), 100<<10), 0o600))
	var archive bytes.Buffer
	check(t, Pack(t.Context(), &archive, Tree{Dir: open(t, upper)}))
	archive.Truncate(archive.Len() / 2)
	if err := Unpack(t.Context(), &archive, open(t, t.TempDir())); err == nil {
		t.Error("it was taken")
	}
	if err := Unpack(t.Context(), bytes.NewReader(bytes.Repeat([]byte("x"), 4096)), open(t, t.TempDir())); sandbox.ClassOf(err) != sandbox.Invalid {
		t.Errorf("%v", err)
	}
}

func FuzzArchives(f *testing.F) {
	upper := f.TempDir()
	check(f, os.WriteFile(upper+"/file", []byte("text"), 0o600))
	check(f, os.Truncate(upper+"/file", 1<<20))
	var archive bytes.Buffer
	check(f, Pack(f.Context(), &archive, Tree{Dir: open(f, upper)}))
	f.Add(archive.Bytes())
	f.Fuzz(func(t *testing.T, text []byte) {
		root := t.TempDir()
		if err := Unpack(t.Context(), bytes.NewReader(text), open(t, root)); err == nil {
			return
		}
		if _, err := os.Lstat(filepath.Join(filepath.Dir(root), "file")); err == nil {
			t.Error("it came out")
		}
	})
}
