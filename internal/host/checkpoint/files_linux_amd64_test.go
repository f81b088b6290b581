package checkpoint_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"aether/internal/host/confine"
	"aether/internal/host/zygote"
)

// sharer maps and holds files of every kind in every way. Each line that it is told
// is a deed done to all of those files; it answers with all that it sees of them: the
// first byte of each of four pages, or "-" where there is none or nothing. It looks at its
// memory from outside, where a page that is beyond the end of a file is no SIGBUS.
const sharer = `
import ctypes, json, mmap, os, sys
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
P, LONG = 4096, 4 * 4096
content = b"a" * P + b"b" * P + b"c" * P
paths, fds, areas, deeds = {}, {}, {}, {}
def area(name, fd, prot, flags):
    at = libc.mmap(None, LONG, prot, flags, fd, 0)
    if at == ctypes.c_void_p(-1).value: raise OSError(ctypes.get_errno(), name)
    areas[name] = at
    if prot & 1: ctypes.string_at(at, 1) # one page is there, the others are not yet
    return at
def map_all(name, fd, shared):
    area(name + ": private", fd, 1, 2); area(name + ": private, executable", fd, 5, 2); area(name + ": private, closed", fd, 0, 2)
    at = area(name + ": private, writable", fd, 3, 2)
    ctypes.memset(at + 2 * P, ord("o"), 1) # its own from now on
    area(name + ": shared, to read", fd, 1, 1)
    if shared: area(name + ": shared", fd, 3, 1)
def hold(name, path, shared=True, keep=True, flags=os.O_RDWR | os.O_CREAT):
    fd = os.open(path, flags, 0o666)
    if flags & os.O_CREAT: os.write(fd, content)
    map_all(name, fd, shared)
    fds[name] = fd
    if keep: paths[name] = path
    return fd
hold("upper", "/tmp/upper")
hold("memory with a name", "/dev/shm/named")
hold("removed", "/tmp/removed", keep=False); os.unlink("/tmp/removed")
hold("looks removed", "/tmp/x (deleted)")
os.mkdir("/tmp/odd\ndir"); hold("odd name", "/tmp/odd\ndir/n\name")
hold("link", "/tmp/first"); os.link("/tmp/first", "/tmp/second"); paths["link"] = "/tmp/second"
hold("link that was removed", "/tmp/third"); os.link("/tmp/third", "/tmp/fourth"); os.unlink("/tmp/third")
paths["link that was removed"] = "/tmp/fourth"; os.close(fds.pop("link that was removed"))
for name in list(areas):
    if name.startswith("link that was removed: shared"): libc.munmap(ctypes.c_void_p(areas.pop(name)), LONG)
hold("renamed", "/tmp/old"); os.rename("/tmp/old", "/tmp/new"); paths["renamed"] = "/tmp/new"
fds["memfd"] = os.memfd_create("m"); os.write(fds["memfd"], content); map_all("memfd", fds["memfd"], True)
fds["tmpfile"] = os.open("/tmp", os.O_TMPFILE | os.O_RDWR, 0o600); os.write(fds["tmpfile"], content); map_all("tmpfile", fds["tmpfile"], True)
hold("image", "/img/plain", shared=False, flags=os.O_RDONLY)
hold("image, mapped", "/img/mapped", shared=False, flags=os.O_RDONLY); os.close(fds.pop("image, mapped"))
libc.munmap(ctypes.c_void_p(areas.pop("image, mapped: shared, to read")), LONG)
hold("image, copied up", "/img/copied", flags=os.O_RDWR)
fd = os.open("/img/late", os.O_RDONLY)
at = libc.mmap(None, LONG, 1, 2, fd, 0); areas["image, changed since: private"] = at; ctypes.string_at(at, 1)
at = libc.mmap(None, LONG, 1, 2, fd, 0); areas["image, changed since: private, unseen"] = at
os.close(fd); fds["image, changed since"] = os.open("/img/late", os.O_RDWR); os.pwrite(fds["image, changed since"], b"L" * LONG, 0)
fd = os.open("/img/linked", os.O_RDONLY); areas["image, moved since: private"] = libc.mmap(None, LONG, 1, 2, fd, 0); os.close(fd)
os.rename("/img/linked", "/img/moved"); open("/img/moved", "r+b").write(b"M" * LONG); paths["image, moved since"] = "/img/moved"

def writable(name):
    return os.dup(fds[name]) if name in fds and name != "image" else os.open(paths[name], os.O_RDWR)
def each(deed):
    for name in sorted(set(paths) | set(fds)):
        fd = writable(name)
        deed(fd)
        os.close(fd)
def replace():
    for name, path in paths.items():
        if name == "image": continue # it is not carried over by a descriptor once it is removed
        with open(path + ".next", "wb") as f: f.write(b"R" * LONG)
        os.rename(path + ".next", path)
deeds["see"] = lambda: None
deeds["write"] = lambda: each(lambda fd: os.pwrite(fd, b"W" * 3 * P, 0))
deeds["truncate"] = lambda: each(lambda fd: os.ftruncate(fd, 1))
deeds["grow"] = lambda: each(lambda fd: os.pwrite(fd, b"G" * P, 3 * P))
deeds["replace"] = replace
def pages(fd, at=0):
    def one(offset):
        try: return os.pread(fd, 1, at + offset).decode().strip("\0") or "-" # copied memory goes on with nothing
        except OSError: return "-"
    return "".join(one(i * P) for i in range(4))
def see():
    memory = os.open("/proc/self/mem", os.O_RDONLY)
    seen = {name: pages(memory, at) for name, at in areas.items()}
    os.close(memory)
    for name, fd in fds.items(): seen[name + ": descriptor"] = pages(fd)
    for name, path in paths.items():
        fd = os.open(path, os.O_RDONLY); seen[name + ": path"] = pages(fd); os.close(fd)
    return json.dumps(seen)
%s
print("primed", flush=True)
for line in sys.stdin:
    try: deeds[line.strip()](); print(see(), flush=True)
    except Exception as e: print(json.dumps({"failed": repr(e)}), flush=True)
`

// below has everything be held by a process that another one has started, and which
// is restored in another way.
const below = `
pid = os.fork()
if pid: os.waitpid(pid, 0); sys.exit()
`

// onlyLayered keeps only files that each child maps from its own layer: then nothing but
// what was written is copied for the next fork, and a warm fork can be that.
const onlyLayered = `
for name in list(areas):
    if name.split(":")[0] not in ("upper", "renamed", "link", "looks removed", "odd name", "memory with a name"): libc.munmap(ctypes.c_void_p(areas.pop(name)), LONG)
`

// sight is what a program sees of files, by their kind and the way they are held.
type sight map[string]string

// does has the program do something to its files, and tells what it sees then.
func (p *program) does(t *testing.T, deed string) (s sight) {
	t.Helper()
	if _, err := fmt.Fprintln(p.in, deed); err != nil {
		t.Fatal(err)
	}
	line, err := p.lines.ReadString('\n')
	if err == nil {
		err = json.Unmarshal([]byte(line), &s)
	}
	if err != nil || s["failed"] != "" {
		t.Fatalf("%s: %q, %v", deed, line, err)
	}
	return s
}

// wants says what is seen otherwise than it should be.
func (s sight) wants(t *testing.T, who string, want sight) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if s[name] != want[name] {
			t.Errorf("%s sees %s as %q, not %q", who, name, s[name], want[name])
		}
	}
}

// like leaves away what a process sees otherwise, and may, when it has done something
// to a file of which it has copied pages: whether private memory shows what is written
// to its file is nobody's promise.
func (s sight) like() sight {
	s = maps.Clone(s)
	maps.DeleteFunc(s, func(name, _ string) bool {
		for _, kind := range []string{"removed:", "link that was removed:", "memfd:", "tmpfile:", "image, changed since:", "image, moved since:", "image:", "image, mapped:"} {
			if strings.HasPrefix(name, kind) && strings.Contains(name, "private") {
				return true
			}
		}
		return false
	})
	return s
}

// imageScene is a scene whose image has files of its own.
func imageScene(t *testing.T) *scene {
	t.Helper()
	s := newScene(t)
	tree := hostTree(t)
	dir := filepath.Join(tree.Layers[0], "img")
	err := errors.Join(os.Mkdir(dir, 0o700), os.Chmod(dir, 0o777))
	for _, name := range []string{"plain", "mapped", "copied", "late", "linked"} {
		text := strings.Repeat("a", 4096) + strings.Repeat("b", 4096) + strings.Repeat("c", 4096)
		err = errors.Join(err, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600), os.Chmod(filepath.Join(dir, name), 0o666))
	}
	err = errors.Join(err, os.Link(filepath.Join(dir, "linked"), filepath.Join(dir, "second")))
	if err != nil {
		t.Fatal(err)
	}
	if s.base, err = s.host.Prepare(tree); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.base.Close() })
	return s
}

// TestForksShareNoFiles: whatever a source, a child or its sibling does to files that
// it has in memory or open, nobody else sees any of it, and what was done before a fork
// its children see as the source does.
func TestForksShareNoFiles(t *testing.T) {
	s := imageScene(t)
	for _, c := range shareCases() {
		for _, who := range c.actors {
			t.Run(fmt.Sprintf("%s, by %s", c.name, actors[who]), func(t *testing.T) {
				t.Parallel()
				s.shareNothing(t, fmt.Sprintf(sharer, c.text), c.before, c.after, who)
			})
		}
	}
}

type shareCase struct {
	name, text, before, after string
	actors                    []int
}

// shareCases are everything that can be done after a fork, and the same before it.
func shareCases() (list []shareCase) {
	for _, deed := range []string{"write", "truncate", "grow", "replace"} {
		for _, before := range []string{"see", deed} {
			name := fmt.Sprintf("%s before, %s after", before, deed)
			list = append(list, shareCase{name, "", before, deed, []int{0, 1, 2}},
				shareCase{name + ", below a command", below, before, deed, []int{0, 1}})
		}
		list = append(list, shareCase{deed + " after, by warm forks", onlyLayered, "see", deed, []int{0, 1}})
	}
	return list
}

// TestImagesShareNoFiles restores processes from disk, after their source has gone on
// with its files.
func TestImagesShareNoFiles(t *testing.T) {
	s := imageScene(t)
	for _, c := range shareCases() {
		if c.text == onlyLayered {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			source := s.start(t, fmt.Sprintf(sharer, c.text))
			base := source.does(t, c.before)
			cell := s.boot(t)
			image, open, err := source.encode(t, s, cell)
			if err != nil {
				t.Fatal(err)
			}
			source.does(t, c.after)
			tree, err := zygote.Decode(s.host, cell, throughJSON(t, image), open)
			if err != nil {
				t.Fatal(err)
			}
			child, err := source.restore(t, tree, cell)
			if err := errors.Join(err, tree.Close()); err != nil {
				t.Fatal(err)
			}
			child.does(t, "see").wants(t, "who was restored", base)
			source.does(t, c.after)
			child.does(t, "see").wants(t, "who was restored", base)
		})
	}
}

var actors = []string{"the source", "a child", "its sibling"}

func (s *scene) shareNothing(t *testing.T, text, before, after string, who int) {
	source := s.start(t, text)
	base := source.does(t, before)
	all := []*program{source, nil, nil}
	cells := []*confine.Cell{source.cell, s.boot(t), s.boot(t)}
	tree := source.retake(t, s, nil, cells[1:]...)
	for n := range cells[1:] {
		var err error
		if all[n+1], err = source.restore(t, tree, cells[n+1]); err != nil {
			t.Fatal(err)
		}
	}
	for n, p := range all {
		p.does(t, "see").wants(t, actors[n], base)
	}
	done := all[who].does(t, after)
	for n, p := range all {
		if n != who {
			p.does(t, "see").wants(t, actors[n]+" of what another has done", base)
		}
	}
	if who != 0 {
		done.like().wants(t, "who did it", source.does(t, after).like())
	}
	// What was kept for the next fork is brought up to date.
	now := source.does(t, "see")
	cell := s.boot(t)
	tree.PrepareWarm(slog.Default())
	tree = source.retake(t, s, tree, cell)
	later, err := source.restore(t, tree, cell)
	if err := errors.Join(err, tree.Close()); err != nil {
		t.Fatal(err)
	}
	later.does(t, "see").wants(t, "a later child", now)
	source.does(t, "write")
	later.does(t, "see").wants(t, "a later child, of what the source has done since,", now)
}

// retake takes a checkpoint by way of what was kept of the last, if something was, and
// brings files to other cells.
func (p *program) retake(t *testing.T, s *scene, last *zygote.Tree, to ...*confine.Cell) *zygote.Tree {
	t.Helper()
	list, err := running(nil, p.pid, -1)
	if err != nil {
		t.Fatal(err)
	}
	tree, err := zygote.Take(s.host, p.cell, list, last, func() error {
		var errs []error
		for _, cell := range to {
			errs = append(errs, cell.TakeWrites(context.Background(), p.cell))
		}
		return errors.Join(errs...)
	})
	if err != nil {
		t.Fatal(err)
	}
	return tree
}
