package leaktest

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
)

// Process is one as /proc shows it.
type Process struct {
	PID, Parent int
	Name        string
	State       byte
	// Mark is its oom_score_adj, which every process inherits that comes of another,
	// whatever namespace, session or parent it ends up with. Few use it.
	Mark string
}

// Ended is one that waits for its parent only.
func (p Process) Ended() bool { return p.State == 'Z' || p.State == 'X' }

// Processes lists those of the host. One that ends meanwhile is left out.
func Processes(t testing.TB) (list []Process) {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if p, ok := Find(pid); ok {
			list = append(list, p)
		}
	}
	return list
}

// Find reads "pid (name) state parent ...", where the name may hold anything.
func Find(pid int) (Process, bool) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	open, end := bytes.IndexByte(text, '('), bytes.LastIndexByte(text, ')')
	if err != nil || open < 0 || end < open {
		return Process{}, false
	}
	fields := strings.Fields(string(text[end+1:]))
	parent, err := strconv.Atoi(fields[1])
	mark, _ := os.ReadFile(fmt.Sprintf("/proc/%d/oom_score_adj", pid))
	return Process{pid, parent, string(text[open+1 : end]), fields[0][0], strings.TrimSpace(string(mark))}, err == nil
}

// Descendants are the processes below one, zombies included.
func Descendants(t testing.TB, root int) (found []Process) {
	t.Helper()
	below := map[int]bool{root: true}
	all := Processes(t)
	for grew := true; grew; {
		grew = false
		for _, p := range all {
			if below[p.Parent] && !below[p.PID] {
				below[p.PID], grew = true, true
				found = append(found, p)
			}
		}
	}
	return found
}

// Describe names processes.
func Describe(list []Process) (names []string) {
	for _, p := range list {
		names = append(names, fmt.Sprintf("%d %s %c", p.PID, p.Name, p.State))
	}
	return names
}

// FreeMarks gives the first of so many marks in a row, at least from and below to,
// that no process has.
func FreeMarks(t testing.TB, from, to, count int) int {
	t.Helper()
	taken := map[string]bool{}
	for _, p := range Processes(t) {
		taken[p.Mark] = true
	}
	for {
		first, free := from+rand.IntN(to-from-count+1), true
		for n := range count {
			free = free && !taken[strconv.Itoa(first+n)]
		}
		if free {
			return first
		}
	}
}

// Marked describes the living processes with one of some marks, each with what the
// mark stands for.
func Marked[V any](t testing.TB, marks map[string]V) (found []string) {
	t.Helper()
	for _, p := range Processes(t) {
		if of, marked := marks[p.Mark]; marked && !p.Ended() {
			found = append(found, fmt.Sprintf("%s of a program killed after %v", Describe([]Process{p})[0], of))
		}
	}
	return found
}
