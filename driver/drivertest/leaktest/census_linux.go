package leaktest

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// Census is what this program and its driver hold of the host. Two of them can be
// compared.
type Census struct {
	Processes   []string
	Mounts      []string
	Groups      []string // cgroups of the programs that use a directory
	Descriptors map[string]int
	Files       []string // under that directory
	Goroutines  int
}

// Take counts. Which processes count is the caller's to say.
func Take(t testing.TB, processes []Process, dir string) Census {
	t.Helper()
	return Census{Processes: Describe(processes), Mounts: Mounts(t, dir), Groups: Groups(t, dir),
		Descriptors: descriptors(t), Files: Files(dir), Goroutines: runtime.NumGoroutine()}
}

// Grown lists what there is more of than before.
func (now Census) Grown(before Census) (list []string) {
	list = slices.Concat(More("processes", before.Processes, now.Processes), More("mounts", before.Mounts, now.Mounts),
		More("cgroups", before.Groups, now.Groups), More("files", before.Files, now.Files))
	for kind, count := range now.Descriptors {
		if count > before.Descriptors[kind] {
			list = append(list, fmt.Sprintf("descriptors of %s: %d, now %d", kind, before.Descriptors[kind], count))
		}
	}
	if now.Goroutines > before.Goroutines {
		list = append(list, fmt.Sprintf("goroutines: %d, now %d", before.Goroutines, now.Goroutines))
	}
	return list
}

// More says that there are more of something than before, if there are.
func More(name string, before, now []string) []string {
	if len(now) <= len(before) {
		return nil
	}
	return []string{fmt.Sprintf("%s: %d, now %d: %.2000q", name, len(before), len(now), NewIn(before, now))}
}

// NewIn lists what was not there before.
func NewIn(before, now []string) []string {
	return slices.DeleteFunc(slices.Clone(now), func(s string) bool { return slices.Contains(before, s) })
}

// Mounts are those that have to do with the temporary directories of the test that a
// directory is one of: other programs of the host mount what they like meanwhile.
func Mounts(t testing.TB, dir string) []string {
	t.Helper()
	for below := filepath.Clean(os.TempDir()); filepath.Dir(dir) != below && dir != "/"; {
		dir = filepath.Dir(dir)
	}
	return slices.DeleteFunc(Lines(t, "/proc/self/mountinfo"), func(line string) bool { return !strings.Contains(line, dir) })
}

// Lines are those of a file.
func Lines(t testing.TB, name string) []string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(text)), "\n")
}

// Locks are the files by which programs that use a directory say that they live.
func Locks(dir string) []string {
	return Walk(dir, func(e fs.DirEntry) bool { return filepath.Ext(e.Name()) == ".cgroup" })
}

// Groups lists the cgroups that the locks of internal/host/cgroup in a directory speak
// of, with all below.
func Groups(t testing.TB, dir string) (found []string) {
	t.Helper()
	for _, lock := range Locks(dir) {
		text, err := os.ReadFile(lock)
		if err != nil {
			continue // its program has just ended
		}
		for _, group := range strings.Fields(string(text)) {
			found = append(found, Walk(group, fs.DirEntry.IsDir)...)
		}
	}
	return found
}

// Files lists all that is below a directory.
func Files(dir string) []string { return Walk(dir, func(fs.DirEntry) bool { return true }) }

// Walk lists what is below a directory that may be changing.
func Walk(dir string, keep func(fs.DirEntry) bool) (found []string) {
	_ = filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
		if err == nil && keep(e) {
			found = append(found, name)
		}
		return nil
	})
	return found
}

// descriptors counts the open ones of this program by what they are of.
func descriptors(t testing.TB) map[string]int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	count := map[string]int{}
	for _, e := range entries {
		target, err := os.Readlink("/proc/self/fd/" + e.Name())
		if err != nil {
			continue // the one that reads the directory
		}
		kind, _, named := strings.Cut(target, ":[")
		if strings.HasPrefix(target, "/sys/fs/cgroup/") {
			kind, named = "cgroups", true
		}
		if !named {
			kind = target
		}
		count[kind]++
	}
	return count
}
