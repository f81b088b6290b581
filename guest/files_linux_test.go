package guest_test

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"aether/guest"
	"aether/sandbox"

	pb "aether/guest/wire/filesystem"
)

// tree makes a root with a passwd of its own and a canary beside it.
func tree(t *testing.T, user string) (client *guest.Client, root, canary string) {
	t.Helper()
	base := t.TempDir()
	root, canary = filepath.Join(base, "root"), filepath.Join(base, "canary")
	for _, dir := range []string{"etc", "tmp", "home/user"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	uid := strconv.Itoa(os.Getuid())
	for name, text := range map[string]string{
		filepath.Join(root, "etc/passwd"): "me:x:" + uid + ":" + strconv.Itoa(os.Getgid()) + "::/home/user:/bin/sh\nuser:x:1000:1000::/home/user:/bin/sh\n",
		filepath.Join(root, "etc/group"):  "mine:x:" + strconv.Itoa(os.Getgid()) + ":\n",
		canary:                            "canary",
	} {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return serve(t, root, guest.Options{DefaultUser: "me"}, guest.ClientOptions{User: user}), root, canary
}

func read(t *testing.T, client *guest.Client, path string) (string, error) {
	t.Helper()
	f, err := client.Read(t.Context(), path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	data, err := io.ReadAll(f)
	return string(data), err
}

func TestFiles(t *testing.T) {
	client, root, _ := tree(t, "")
	ctx := t.Context()
	for _, contents := range []string{"first", "", "second\x00\xff"} {
		if err := client.Write(ctx, "deep/er/file", strings.NewReader(contents)); err != nil {
			t.Fatal(err)
		}
		if got, err := read(t, client, "~/deep/er/file"); err != nil || got != contents {
			t.Errorf("%q, %v, want %q", got, err, contents)
		}
	}
	if err := client.Move(ctx, "deep/er/file", "/other/place"); err != nil {
		t.Fatal(err)
	}
	e, err := client.Stat(ctx, "/other/place")
	if err != nil || e.GetName() != "place" || e.GetSize() != 8 || e.GetType() != pb.FileType_FILE_TYPE_FILE || e.GetMode() != 0o644 ||
		e.GetPermissions() != "-rw-r--r--" || e.GetOwner() != "me" || e.GetGroup() != "mine" || time.Since(e.GetModifiedTime().AsTime()) > 10*time.Minute {
		t.Errorf("%v, %v", e, err)
	}
	if err := client.MakeDir(ctx, "/a/b"); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/other/place", filepath.Join(root, "a/link")); err != nil {
		t.Fatal(err)
	}
	link, err := client.Stat(ctx, "/a/link")
	if err != nil || link.GetSymlinkTarget() != "/other/place" || link.GetType() != pb.FileType_FILE_TYPE_FILE || link.GetPermissions()[0] != 'L' {
		t.Errorf("%v, %v", link, err)
	}
	list, err := client.List(ctx, "/a", 1)
	if err != nil || len(list) != 2 || list[0].GetPath() != "/a/b" || list[1].GetPath() != "/a/link" {
		t.Errorf("%v, %v", list, err)
	}
	if err := client.Remove(ctx, "/a"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(root, "other/place")); err != nil {
		t.Error("a link was followed:", err)
	}
	if left, _ := filepath.Glob(filepath.Join(root, "home/user/deep/er/*")); len(left) > 0 {
		t.Errorf("drafts are left: %v", left)
	}
}

func TestListDepth(t *testing.T) {
	client, _, _ := tree(t, "")
	if err := client.MakeDir(t.Context(), "/x/a/b/c"); err != nil {
		t.Fatal(err)
	}
	for depth, want := range map[uint32]int{0: 1, 1: 1, 2: 2, 3: 3, 1 << 31: 3} {
		if list, err := client.List(t.Context(), "/x", depth); err != nil || len(list) != want {
			t.Errorf("depth %d: %v, %v", depth, list, err)
		}
	}
}

func TestFileErrorsAreTyped(t *testing.T) {
	client, root, _ := tree(t, "")
	ctx := t.Context()
	if err := exec.Command("mkfifo", filepath.Join(root, "fifo")).Run(); err != nil {
		t.Fatal(err)
	}
	readIt := func(path string) error { _, err := read(t, client, path); return err }
	for _, c := range []struct {
		name string
		err  error
		want sandbox.Class
	}{
		{"read a missing file", readIt("/missing"), sandbox.NotFound},
		{"read a directory", readIt("/etc"), sandbox.Invalid},
		{"read a fifo", readIt("/fifo"), sandbox.Invalid},
		{"write over a directory", client.Write(ctx, "/etc", strings.NewReader("")), sandbox.Invalid},
		{"write below a file", client.Write(ctx, "/etc/passwd/x", strings.NewReader("")), sandbox.Invalid},
		{"write over the root", client.Write(ctx, "/", strings.NewReader("")), sandbox.Conflict},
		{"make what exists", client.MakeDir(ctx, "/etc"), sandbox.Conflict},
		{"make over a file", client.MakeDir(ctx, "/etc/passwd"), sandbox.Invalid},
		{"move what is missing", client.Move(ctx, "/missing", "/x"), sandbox.NotFound},
		{"move the root", client.Move(ctx, "/", "/x"), sandbox.Conflict},
		{"remove the root", client.Remove(ctx, "/"), sandbox.Conflict},
		{"another's home", client.Remove(ctx, "~root/x"), sandbox.Invalid},
		{"watch a file", client.Watch(ctx, "/etc/passwd", false, nil, nil), sandbox.Invalid},
		{"watch what is missing", client.Watch(ctx, "/missing", false, nil, nil), sandbox.NotFound},
	} {
		if sandbox.ClassOf(c.err) != c.want {
			t.Errorf("%s: %v, want %v", c.name, c.err, c.want)
		}
	}
	if err := client.Remove(ctx, "/missing"); err != nil {
		t.Error("removing what is missing:", err)
	}
	if _, err := client.List(ctx, "/etc/passwd", 1); sandbox.ClassOf(err) != sandbox.Invalid {
		t.Errorf("list a file: %v", err)
	}
}

func TestFilesCannotLeadOut(t *testing.T) {
	client, root, canary := tree(t, "")
	ctx := t.Context()
	for name, target := range map[string]string{"abs": canary, "rel": "../canary", "up": "../.."} {
		if err := os.Symlink(target, filepath.Join(root, name)); err != nil {
			t.Fatal(err)
		}
	}
	paths := []string{"/abs", "/rel", "/up/canary", "/../canary", canary, "/up/" + filepath.Base(filepath.Dir(canary)) + "/canary"}
	for _, path := range paths {
		if got, err := read(t, client, path); err == nil {
			t.Errorf("read %s: %q", path, got)
		}
	}
	for _, path := range paths {
		// A write may well make a file, inside.
		_ = client.Write(ctx, path, strings.NewReader("overwritten"))
		_ = client.Remove(ctx, path)
	}
	if data, err := os.ReadFile(canary); err != nil || string(data) != "canary" {
		t.Errorf("the canary is %q, %v", data, err)
	}
}

func TestFilesBelongToTheUser(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can act as somebody else")
	}
	client, root, _ := tree(t, "user")
	ctx := t.Context()
	for dir := root; dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chown(filepath.Join(root, "home/user"), 1000, 1000); err != nil {
		t.Fatal(err)
	}
	if err := client.Write(ctx, "new/file", strings.NewReader("x")); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"new", "new/file"} {
		if e, err := client.Stat(ctx, path); err != nil || e.GetOwner() != "user" {
			t.Errorf("%s: %v, %v", path, e, err)
		}
	}
	if err := client.Write(ctx, "/etc/passwd", strings.NewReader("x")); sandbox.ClassOf(err) != sandbox.Denied {
		t.Errorf("writing root's file: %v", err)
	}
	if err := client.Remove(ctx, "/etc"); sandbox.ClassOf(err) != sandbox.Denied {
		t.Errorf("removing root's directory: %v", err)
	}
	if err := os.WriteFile(filepath.Join(root, "secret"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := read(t, client, "/secret"); sandbox.ClassOf(err) != sandbox.Denied {
		t.Errorf("reading root's secret: %v", err)
	}
	// A file that the user may write, in a directory that it may not.
	if err := os.WriteFile(filepath.Join(root, "etc/shared"), []byte("longer than before"), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(root, "etc/shared"), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := client.Write(ctx, "/etc/shared", strings.NewReader("in place")); err != nil {
		t.Fatal(err)
	}
	if got, err := read(t, client, "/etc/shared"); got != "in place" {
		t.Errorf("%q, %v", got, err)
	}
}

func TestLargeFile(t *testing.T) {
	client, _, _ := tree(t, "")
	want := bytes.Repeat([]byte("0123456789abcdef"), 1<<20)
	if err := client.Write(t.Context(), "large", bytes.NewReader(want)); err != nil {
		t.Fatal(err)
	}
	if got, err := read(t, client, "large"); err != nil || got != string(want) {
		t.Errorf("%d bytes of %d, %v", len(got), len(want), err)
	}
}

// TestBrokenUpload breaks off in the middle: the old file must stay whole.
func TestBrokenUpload(t *testing.T) {
	client, root, _ := tree(t, "")
	if err := client.Write(t.Context(), "file", strings.NewReader("old")); err != nil {
		t.Fatal(err)
	}
	body, writer := io.Pipe()
	go func() {
		writer.Write(bytes.Repeat([]byte("x"), 1<<20))
		writer.CloseWithError(io.ErrUnexpectedEOF)
	}()
	if err := client.Write(t.Context(), "file", body); err == nil {
		t.Error("half a file was taken")
	}
	if got, err := read(t, client, "file"); err != nil || got != "old" {
		t.Errorf("%q, %v", got, err)
	}
	waitFor(t, "no draft", func() bool {
		names, err := os.ReadDir(filepath.Join(root, "home/user"))
		return err == nil && len(names) == 1
	})
}

func TestUnsizedFiles(t *testing.T) {
	client := here(t, wire)
	if got, err := read(t, client, "/proc/version"); err != nil || !strings.HasPrefix(got, "Linux") {
		t.Errorf("%q, %v", got, err)
	}
}

func TestWatch(t *testing.T) {
	client, root, _ := tree(t, "")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	type change struct {
		name string
		kind pb.EventType
	}
	ready, changes, done := make(chan struct{}), make(chan change, 100), make(chan error, 1)
	go func() {
		done <- client.Watch(ctx, "~", true, func() { close(ready) }, func(e *pb.FilesystemEvent) { changes <- change{e.GetName(), e.GetType()} })
	}()
	<-ready
	wait := func(want change) {
		t.Helper()
		for got := range changes {
			if got == want {
				return
			}
			if ctx.Err() != nil {
				t.Fatalf("no %v", want)
			}
		}
	}
	if err := client.Write(ctx, "~/dir/file", strings.NewReader("x")); err != nil {
		t.Fatal(err)
	}
	wait(change{"dir", pb.EventType_EVENT_TYPE_CREATE})
	wait(change{"dir/file", pb.EventType_EVENT_TYPE_CREATE})
	if err := client.Write(ctx, "~/dir/file", strings.NewReader("y")); err != nil {
		t.Fatal(err)
	}
	wait(change{"dir/file", pb.EventType_EVENT_TYPE_WRITE})
	if err := os.RemoveAll(filepath.Join(root, "home/user")); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Errorf("the end of the directory: %v", err)
	}
}

// TestListingIsBoundedInBytes lists few files whose paths are long.
func TestListingIsBoundedInBytes(t *testing.T) {
	client, root, _ := tree(t, "")
	deep, err := os.OpenRoot(root)
	if err != nil {
		t.Fatal(err)
	}
	defer deep.Close()
	inside := ""
	for range 14 {
		name := strings.Repeat("d", 250)
		if err := deep.Mkdir(name, 0o755); err != nil {
			t.Fatal(err)
		}
		next, err := deep.OpenRoot(name)
		if err != nil {
			t.Fatal(err)
		}
		defer next.Close()
		deep, inside = next, inside+"/"+name
	}
	for i := range 6000 {
		if err := deep.WriteFile(strconv.Itoa(i), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	_, err = client.List(t.Context(), inside, 1)
	if sandbox.ClassOf(err) != sandbox.Exhausted || !strings.Contains(err.Error(), "list a directory further down") {
		t.Errorf("got %.300v", err)
	}
	if entries, err := client.List(t.Context(), "/", 10); err != nil || len(entries) < 10 {
		t.Errorf("%d entries, %.300v", len(entries), err)
	}
}
