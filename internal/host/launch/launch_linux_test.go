package launch

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"aether/internal/host/cgroup"
	"aether/internal/host/spawn"
	"aether/sandbox"
)

func open(t *testing.T) *Host {
	t.Helper()
	h, err := Open(t.TempDir())
	if err != nil {
		t.Skipf("this host allows no user namespaces: %v", err)
	}
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	})
	return h
}

// run runs a shell script as the program and gives what it wrote.
func run(t *testing.T, h *Host, tree *Tree, script string) (string, spawn.Status, error) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	p, err := h.Start(Program{Path: "/bin/sh", Args: []string{"sh", "-c", script}, Env: []string{"PATH=" + os.Getenv("PATH")},
		Files: []*os.File{null, w, w}, Group: cgroup.Attach{Into: -1}, Tree: tree})
	w.Close()
	if err != nil {
		return "", spawn.Status{}, err
	}
	text, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	status, err := p.Wait()
	return strings.TrimSpace(string(text)), status, err
}

func layer(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestProgramWithoutTree(t *testing.T) {
	out, status, err := run(t, open(t), nil, "echo hello; ls /proc/self/fd | wc -l; exit 4")
	if err != nil || out != "hello\n4" || status.Code != 4 {
		t.Errorf("%q, %+v, %v", out, status, err)
	}
}

func TestProgramThatDoesNotExist(t *testing.T) {
	_, err := open(t).Start(Program{Path: "/no/such", Args: []string{"x"}, Group: cgroup.Attach{Into: -1}})
	var failure *spawn.Failure
	if !errors.As(err, &failure) || !errors.Is(err, syscall.ENOENT) {
		t.Errorf("%v", err)
	}
}

func TestTree(t *testing.T) {
	h := open(t)
	bound, shared := layer(t, map[string]string{"f": "bound"}), layer(t, map[string]string{"file": "shared"})
	tree := &Tree{
		Layers:     []string{layer(t, map[string]string{"a": "low", "b": "low", "usr/x": ""}), layer(t, map[string]string{"b": "high"})},
		Binds:      []Bind{{Source: bound, Target: "/usr"}},
		UpperBytes: 1 << 20,
		Mounts:     []sandbox.Mount{{Source: shared, Target: "/new/deep/place"}, {Source: filepath.Join(shared, "file"), Target: "/one"}},
		Shown:      []string{"/bin/sh"},
	}
	root, lines := h.Root(), func(scripts ...string) string { return strings.Join(scripts, "; echo; ") }
	got, status, err := run(t, h, tree, "cd "+root+" && "+lines("cat a", "cat b", "cat usr/f", "cat new/deep/place/file", "cat one",
		"(echo x > usr/f) 2>/dev/null || printf refused", "(echo x > one) 2>/dev/null || printf refused", "echo x > own; printf $(cat own)", "printf $(id -u)",
		"printf $$", "read pid rest < /proc/self/stat; printf $pid", "test -x "+h.Shown(0)+" && printf shown", "head -c 2M /dev/zero > "+h.Shared()+"/big 2>/dev/null || printf full"))
	want := strings.Join([]string{"low", "high", "bound", "shared", "shared", "refused", "refused", "x", "0", "1", "1", "shown", "full"}, "\n")
	if err != nil || status.Code != 0 || got != want {
		t.Errorf("got %q\nwant %q\n%+v, %v", got, want, status, err)
	}
	for _, dir := range append(tree.Layers, bound, shared) {
		if _, err := os.Stat(filepath.Join(dir, "own")); err == nil {
			t.Errorf("%s was written to", dir)
		}
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil || strings.Contains(string(mounts), " "+root) {
		t.Errorf("the tree is mounted on the host: %v", err)
	}
}

// TestManyFiles: an ordinary user's child opens the parts of its root itself, and what a program
// has open that makes many of them is in the way of none.
func TestManyFiles(t *testing.T) {
	h := open(t)
	h.Single = true
	tree := &Tree{Layers: []string{layer(t, map[string]string{"a": "low"})}, UpperBytes: 1 << 20,
		Mounts: []sandbox.Mount{{Source: layer(t, map[string]string{"file": "shared"}), Target: "/place"}}}
	for count := range 330 {
		file, err := os.Open(os.DevNull)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		if count < 270 {
			continue
		}
		got, status, err := run(t, h, tree, "cd "+h.Root()+" && cat a place/file")
		if err != nil || status.Code != 0 || got != "lowshared" {
			t.Fatalf("with %d files more open: %q, %+v, %v", count+1, got, status, err)
		}
	}
}

// TestAside: mounts can be left to the program.
func TestAside(t *testing.T) {
	h := open(t)
	shared := layer(t, map[string]string{"file": "shared"})
	tree := &Tree{Layers: []string{layer(t, nil)}, UpperBytes: 1 << 20, Aside: true,
		Mounts: []sandbox.Mount{{Source: shared, Target: "/place"}, {Source: filepath.Join(shared, "file"), Target: "/one"}}}
	got, _, err := run(t, h, tree, fmt.Sprintf("cat %s/file %s; ls %s; (echo x > %s) 2>/dev/null || echo refused", h.Aside(0), h.Aside(1), h.Root(), h.Aside(1)))
	if err != nil || got != "sharedsharedrefused" {
		t.Errorf("%q, %v", got, err)
	}
}

// TestOwnersAreTheImages: files have the ids inside that they have in the image.
func TestOwnersAreTheImages(t *testing.T) {
	h := open(t)
	dir := layer(t, map[string]string{"f": ""})
	want := "0"
	if !h.Single {
		if err := os.Chown(filepath.Join(dir, "f"), 1000, 1000); err != nil {
			t.Fatal(err)
		}
		want = "1000"
	}
	shared := layer(t, nil)
	tree := &Tree{Layers: []string{dir}, UpperBytes: 1 << 20, Mounts: []sandbox.Mount{{Source: shared, Target: "/s", Writable: true}}}
	got, _, err := run(t, h, tree, "cd "+h.Root()+"; printf $(stat -c %u f); echo made > s/new")
	if sandbox.ClassOf(err) == sandbox.Unavailable {
		t.Skipf("the file system of the test's directory cannot be id-mapped: %v", err)
	}
	if err != nil || got != want {
		t.Errorf("%q, %v, want %s", got, err, want)
	}
	info, err := os.Stat(filepath.Join(shared, "new"))
	if err != nil || int(info.Sys().(*syscall.Stat_t).Uid) != os.Geteuid() {
		t.Errorf("%v, %v: what the root inside makes is not its host's", info, err)
	}
}

// TestProgramsHaveIdsOfTheirOwn: no two that live have the same, and those of the dead are
// used again.
func TestProgramsHaveIdsOfTheirOwn(t *testing.T) {
	h := open(t)
	if h.Single {
		t.Skip("an ordinary user has one id")
	}
	seen := map[string]bool{}
	for range 3 {
		p, err := h.Start(Program{Path: "/bin/sleep", Args: []string{"sleep", "60"}, Group: cgroup.Attach{Into: -1},
			Tree: &Tree{Layers: []string{layer(t, nil)}, UpperBytes: 1 << 20}})
		if err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/uid_map", p.Pid()))
		if err != nil || seen[string(text)] {
			t.Errorf("%q is another's, too: %v", text, err)
		}
		seen[string(text)] = true
		defer func() {
			if _, err := p.Wait(); err != nil {
				t.Error(err)
			}
			if all, free := h.ranges.Held(); all != 3 || free == 0 {
				t.Errorf("%d ranges are held, %d of them free", all, free)
			}
		}()
		defer p.Signal(syscall.SIGKILL)
	}
}

// TestTargetsStayInside: links of an image do not lead mounts to the host.
func TestTargetsStayInside(t *testing.T) {
	h := open(t)
	outside, image := t.TempDir(), t.TempDir()
	for name, to := range map[string]string{"abs": outside, "up": "../../../../../../../.." + outside} {
		if err := os.Symlink(to, filepath.Join(image, name)); err != nil {
			t.Fatal(err)
		}
	}
	for _, target := range []string{"/abs/x", "/up/x", "/../../abs/x"} {
		tree := &Tree{Layers: []string{image}, UpperBytes: 1 << 20, Mounts: []sandbox.Mount{{Source: t.TempDir(), Target: target}}}
		_, _, err := run(t, h, tree, "true")
		if entries, readErr := os.ReadDir(outside); readErr != nil || len(entries) > 0 {
			t.Errorf("%s: %v was made outside (%v, %v)", target, entries, err, readErr)
		}
	}
}

func TestBadTrees(t *testing.T) {
	h := open(t)
	good := layer(t, nil)
	for name, tree := range map[string]*Tree{
		"missing layer":  {Layers: []string{"/no/such"}, UpperBytes: 1 << 20},
		"missing mount":  {Layers: []string{good}, UpperBytes: 1 << 20, Mounts: []sandbox.Mount{{Source: "/no/such", Target: "/x"}}},
		"missing target": {Layers: []string{good}, UpperBytes: 1 << 20, Binds: []Bind{{Source: good, Target: "/not/there"}}},
	} {
		if _, _, err := run(t, h, tree, "true"); err == nil {
			t.Errorf("%s: it ran", name)
		}
	}
	var many []sandbox.Mount
	for i := range 64 {
		many = append(many, sandbox.Mount{Source: good, Target: fmt.Sprintf("/a/%d", i)})
	}
	if _, _, err := run(t, h, &Tree{Layers: []string{good}, UpperBytes: 1 << 20, Mounts: many}, "true"); err != nil {
		t.Errorf("64 mounts: %v", err)
	}
}
