package lab

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Processes are those of the host at an instant, by their numbers.
type Processes map[int]Process

// Process is one of them.
type Process struct {
	Parent int
	// Began is when, in ticks of the kernel: with the number it names a process.
	Began uint64
	CPU   time.Duration
	// Stack is where the stack begins, at random: processes that have the same one share
	// all of their memory. It is zero where nobody may know.
	Stack uint64
}

// ReadProcesses looks at all of them. Those that end meanwhile are left out.
func ReadProcesses() (Processes, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	list := Processes{}
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		p, err := readProcess(pid)
		if gone(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		list[pid] = p
	}
	return list, nil
}

// gone says that what was read of is no longer there.
func gone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || err != nil && strings.Contains(err.Error(), "no such process")
}

func readProcess(pid int) (Process, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return Process{}, err
	}
	return parseProcess(string(text))
}

// parseProcess reads a line of /proc/PID/stat, in which a name may have anything.
func parseProcess(line string) (p Process, err error) {
	const tick = 10 * time.Millisecond
	fields := strings.Fields(line[strings.LastIndexByte(line, ')')+1:])
	const parent, user, system, began, stack = 1, 11, 12, 19, 25
	if len(fields) <= stack {
		return p, fmt.Errorf("%.80q is no state of a process", line)
	}
	var numbers [5]uint64
	for i, at := range []int{parent, user, system, began, stack} {
		if numbers[i], err = strconv.ParseUint(fields[at], 10, 64); err != nil {
			return p, fmt.Errorf("%.80q is no state of a process: %w", line, err)
		}
	}
	return Process{int(numbers[0]), numbers[3], time.Duration(numbers[1]+numbers[2]) * tick, numbers[4]}, nil
}

// Of are those processes that are of sandboxes with certain ids: what this program has
// started, what names an id in its arguments, control groups or environment, what names
// the container that such a process is in, which is how a daemon's helpers are told, and
// everything that those have started; without what was there before.
func (all Processes) Of(ids []string, before Processes) (Processes, error) {
	late := Processes{}
	for pid, p := range all {
		if old, ok := before[pid]; (!ok || old.Began != p.Began) && pid != os.Getpid() {
			late[pid] = p
		}
	}
	found, err := late.naming(ids, "cmdline", "cgroup", "environ")
	if err != nil {
		return nil, err
	}
	containers, err := found.containers()
	if err != nil {
		return nil, err
	}
	helpers, err := late.naming(containers, "cmdline", "cgroup")
	if err != nil {
		return nil, err
	}
	maps.Copy(found, helpers)
	roots := maps.Clone(found)
	roots[os.Getpid()] = Process{}
	for pid, p := range late {
		if all.below(pid, roots) {
			found[pid] = p
		}
	}
	return found, nil
}

// naming are those that name one of the words in one of their files.
func (all Processes) naming(words []string, files ...string) (Processes, error) {
	found := Processes{}
	for pid, p := range all {
		named, err := names(pid, words, files)
		if err != nil {
			return nil, err
		}
		if named {
			found[pid] = p
		}
	}
	return found, nil
}

// containerName is how daemons name the control groups of containers.
var containerName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\b[0-9a-f]{64}\b`) })

// containers are the names that daemons have given to what these processes are in, without
// the one that this program is in itself.
func (all Processes) containers() (list []string, err error) {
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil, err
	}
	for pid := range all {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
		if gone(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if name := containerName().Find(text); name != nil && !bytes.Contains(own, name) && !slices.Contains(list, string(name)) {
			list = append(list, string(name))
		}
	}
	return list, nil
}

// below says whether a process descends from one of others.
func (all Processes) below(pid int, roots Processes) bool {
	for range len(all) {
		p, ok := all[pid]
		if !ok || p.Parent == 0 {
			return false
		}
		if _, ok := roots[p.Parent]; ok {
			return true
		}
		pid = p.Parent
	}
	return false
}

// names says whether a process names one of the words. What it keeps from this user names
// nothing.
func names(pid int, words, files []string) (bool, error) {
	for _, file := range files {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, file))
		if gone(err) || errors.Is(err, fs.ErrPermission) {
			continue
		}
		if err != nil {
			return false, err
		}
		for _, word := range words {
			if bytes.Contains(text, []byte(word)) {
				return true, nil
			}
		}
	}
	return false, nil
}

// memories are the processes without those that share all of their memory with another
// of them, or with this program: what is about to become a sandbox does.
func (all Processes) memories() (list []int, err error) {
	self, err := readProcess(os.Getpid())
	if err != nil {
		return nil, err
	}
	seen := map[uint64]bool{self.Stack: true, 0: false}
	for pid, p := range all {
		if !seen[p.Stack] {
			list = append(list, pid)
		}
		seen[p.Stack] = p.Stack != 0
	}
	return list, nil
}

// PSS is the memory of processes in KiB, in which a page that several share counts a part
// for each of them. Those that have ended hold none.
func (all Processes) PSS() (sum int64, err error) {
	pids, err := all.memories()
	if err != nil {
		return 0, err
	}
	for _, pid := range pids {
		kib, err := ReadPSS(pid)
		if err != nil {
			return 0, err
		}
		sum += kib
	}
	return sum, nil
}

// ReadPSS is that of one process.
func ReadPSS(pid int) (int64, error) { return sumOf(pid, "smaps_rollup", "Pss:") }

// Private is the memory that processes share with nobody, in KiB, with the page tables
// by which they reach the rest.
func (all Processes) Private() (sum int64, err error) {
	pids, err := all.memories()
	if err != nil {
		return 0, err
	}
	for _, pid := range pids {
		pages, err := sumOf(pid, "smaps_rollup", "Private_Clean:", "Private_Dirty:")
		if err != nil {
			return 0, err
		}
		tables, err := sumOf(pid, "status", "VmPTE:")
		if err != nil {
			return 0, err
		}
		sum += pages + tables
	}
	return sum, nil
}

// sumOf adds up figures of a file of a process. One that has ended has none.
func sumOf(pid int, file string, figures ...string) (sum int64, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, file))
	if gone(err) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) < 2 || !slices.Contains(figures, fields[0]) {
			continue
		}
		kib, err := strconv.ParseInt(fields[1], 10, 64)
		if err != nil {
			return 0, err
		}
		sum += kib
	}
	return sum, nil
}

// CPU is the time of processors that they have used together.
func (all Processes) CPU() (sum time.Duration) {
	for _, p := range all {
		sum += p.CPU
	}
	return sum
}
