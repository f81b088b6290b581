package cli

import (
	"archive/tar"
	"bytes"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// plant makes a tree with what a copy has to keep.
func plant(t *testing.T, dir string) {
	t.Helper()
	check(t, os.MkdirAll(filepath.Join(dir, "sub", "closed"), 0o755))
	check(t, os.WriteFile(filepath.Join(dir, "data"), bytes.Repeat([]byte("0123456789"), 1<<18), 0o640))
	check(t, os.WriteFile(filepath.Join(dir, "sub", "run me"), []byte("#!/bin/sh\n"), 0o755))
	check(t, os.WriteFile(filepath.Join(dir, "-x"), nil, 0o600))
	check(t, os.Symlink("data", filepath.Join(dir, "link")))
	check(t, os.Symlink("/nowhere", filepath.Join(dir, "sub", "dangling")))
	socket, err := net.Listen("unix", filepath.Join(dir, "socket"))
	check(t, err)
	t.Cleanup(func() { socket.Close() })
	check(t, os.Chmod(filepath.Join(dir, "sub", "closed"), 0o500))
	old := time.Date(2020, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, name := range []string{"data", "sub/run me", "sub", "."} {
		check(t, os.Chtimes(filepath.Join(dir, name), old, old))
	}
}

// treeOf describes what is below a directory.
func treeOf(t *testing.T, dir string) map[string]string {
	t.Helper()
	tree := map[string]string{}
	check(t, filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
		check(t, err)
		info, err := entry.Info()
		check(t, err)
		below, err := filepath.Rel(dir, name)
		check(t, err)
		what := info.Mode().String()
		switch {
		case info.Mode()&fs.ModeSymlink != 0:
			to, err := os.Readlink(name)
			check(t, err)
			what = "-> " + to
		case info.Mode().IsRegular():
			text, err := os.ReadFile(name)
			check(t, err)
			what += " " + string(text[:min(len(text), 20)]) + info.ModTime().UTC().Format(time.DateTime)
		case info.IsDir() && (below == "." || below == "sub"):
			what += " " + info.ModTime().UTC().Format(time.DateTime)
		}
		tree[below] = what
		return nil
	}))
	return tree
}

// TestCopyBothWays: what was copied into a sandbox and out of it again is what it was,
// but for what is neither a file, a directory nor a link.
func TestCopyBothWays(t *testing.T) {
	newHome(t)
	id, dir := create(t), t.TempDir()
	source := filepath.Join(dir, "source")
	plant(t, source)
	checkLine(t, run(t, nil, "cp", source, id+":/tmp").stderr, "left out: 1 (devices, pipes and sockets are not copied)")
	succeed(t, "cp", id+":/tmp/source", filepath.Join(dir, "copy"))
	want, got := treeOf(t, source), treeOf(t, filepath.Join(dir, "copy"))
	delete(want, "socket")
	for name := range want {
		if got[name] != want[name] {
			t.Errorf("%s is %q, was %q", name, got[name], want[name])
		}
	}
	if len(got) != len(want) {
		t.Errorf("%v, was %v", got, want)
	}

	succeed(t, "cp", filepath.Join(source, "link"), id+":/tmp/other") // whose contents are meant
	succeed(t, "cp", id+":/tmp/other", dir)
	user := strconv.Itoa(os.Getuid()) // which is all that an ordinary user's cells have
	succeed(t, "cp", "--user", user, filepath.Join(source, "data"), id+":/tmp/mine")
	succeed(t, "cp", "--user", user, id+":/tmp/mine", filepath.Join(dir, "data"))
	for _, name := range []string{"other", "data"} {
		info, err := os.Lstat(filepath.Join(dir, name))
		if err != nil || info.Mode() != 0o640 || info.Size() != 10<<18 || info.ModTime().Year() != 2020 {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
	succeed(t, "exec", id, "--", "mkdir", "-m", "0", "/tmp/closed")
	for args, says := range map[string]string{
		"cp " + id + ":/tmp/none " + dir:                       "/tmp/none",
		"cp " + id + ":/tmp/other " + dir + "/none/":           "there is no directory",
		"cp " + source + " " + id + ":/tmp/none/":              "there is no directory /tmp/none",
		"cp " + source + " " + id + ":/tmp/other":              "/tmp/other is no directory",
		"cp " + source + " " + id + ":/etc/none/x":             "/etc/none: Cannot open",
		"cp " + id + ":/tmp/closed " + filepath.Join(dir, "x"): "Permission denied",
		"cp " + filepath.Join(dir, "no") + " " + id + ":/":     "no such file",
	} {
		got := run(t, nil, strings.Fields(args)...)
		if got.status != 1 {
			t.Errorf("%s: %+v", args, got)
		}
		if !strings.Contains(got.stderr, says) {
			t.Errorf("%s: %q does not say %q", args, got.stderr, says)
		}
	}
}

// TestCopyOutOfAHostileSandbox: a link that was copied is not written through by the next
// copy, and a tar of the sandbox's own making reaches nothing outside.
func TestCopyOutOfAHostileSandbox(t *testing.T) {
	newHome(t)
	dir := t.TempDir()
	outside, target := filepath.Join(dir, "outside"), filepath.Join(dir, "target")
	check(t, os.Mkdir(outside, 0o755))
	id := create(t, "--env", "PATH=/tmp/bin:/usr/bin:/bin")
	succeed(t, "exec", id, "--", "sh", "-c", "mkdir /tmp/w && ln -s "+outside+" /tmp/w/link")
	succeed(t, "cp", id+":/tmp/w", target)
	succeed(t, "exec", id, "--", "sh", "-c", "rm /tmp/w/link && mkdir /tmp/w/link && echo x > /tmp/w/link/planted")
	got := run(t, nil, "cp", id+":/tmp/w/link", target)
	checkLine(t, got.stderr, "target/link is there, and no directory")
	check(t, os.Mkdir(filepath.Join(target, "w"), 0o755))
	check(t, os.Symlink(outside, filepath.Join(target, "w", "link")))
	succeed(t, "cp", id+":/tmp/w", target)
	if info, err := os.Lstat(filepath.Join(target, "w", "link", "planted")); err != nil || info.Size() != 2 {
		t.Errorf("%v, %v", info, err)
	}

	archive := filepath.Join(dir, "archive")
	check(t, os.WriteFile(archive, pack(t, tar.Header{Typeflag: tar.TypeDir, Name: "w", Mode: 0o755},
		tar.Header{Typeflag: tar.TypeSymlink, Name: "w/out", Linkname: outside}, tar.Header{Typeflag: tar.TypeReg, Name: "w/out/planted"}), 0o600))
	fake := filepath.Join(dir, "tar")
	check(t, os.WriteFile(fake, []byte("#!/bin/sh\ncat /tmp/archive\n"), 0o755))
	succeed(t, "exec", id, "--", "mkdir", "/tmp/bin")
	succeed(t, "cp", archive, id+":/tmp")
	succeed(t, "cp", fake, id+":/tmp/bin")
	got = run(t, nil, "cp", id+":/tmp/w", filepath.Join(dir, "new"))
	if got.status != 1 {
		t.Errorf("%+v", got)
	}
	checkLine(t, got.stderr, "copy w/out/planted: ")
	check(t, os.WriteFile(fake, []byte("#!/bin/sh\nexec /usr/bin/tar -S --format=posix \"$@\"\n"), 0o755))
	succeed(t, "exec", id, "--", "rm", "/tmp/bin/tar")
	succeed(t, "cp", fake, id+":/tmp/bin")
	succeed(t, "exec", id, "--", "truncate", "-s", "1T", "/tmp/large")
	checkLine(t, run(t, nil, "cp", id+":/tmp/large", dir).stderr, "a file with holes was not asked for")
	if left, err := os.ReadDir(outside); err != nil || len(left) != 0 {
		t.Errorf("outside are %v, %v", left, err)
	}
}
