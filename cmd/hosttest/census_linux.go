package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// census is what there is on the machine of what sandboxes are made of, by kind.
type census map[string][]string

// takeCensus looks at the whole machine.
func takeCensus() (census, error) {
	c := census{}
	for kind, look := range map[string]func() ([]string, error){
		"process": processes, "mount": mounts, "group": groups, "network namespace": networks, "file": files, "loop device": loops,
	} {
		found, err := look()
		if err != nil {
			return nil, fmt.Errorf("census of %s: %w", kind, err)
		}
		c[kind] = found
	}
	return c, nil
}

// grown lists what is new since before.
func (c census) grown(before census) (list []string) {
	for _, kind := range slices.Sorted(maps.Keys(c)) {
		for _, item := range c[kind] {
			if !slices.Contains(before[kind], item) {
				list = append(list, kind+" "+item)
			}
		}
	}
	return list
}

// settleTime is how long what ends by itself may take to, on a real machine: a daemon that
// a command has started stays for ten seconds.
const settleTime = 15 * time.Second

// daemonLog is what such a daemon has said, which is kept for people.
const daemonLog = "/daemon/log"

// leaks looks for what the way's steps have left.
func (t *turn) leaks() error {
	for deadline := time.Now().Add(time.Duration(t.pace) * settleTime); ; time.Sleep(time.Second) {
		now, err := takeCensus()
		if err != nil {
			return err
		}
		left := now.grown(t.before)
		if len(left) == 0 {
			return nil
		}
		if time.Now().After(deadline) {
			t.script.WriteString(strings.Join(left, "\n"))
			return fmt.Errorf("%d are left: %s", len(left), clip(strings.Join(left, "; "), 300))
		}
	}
}

// processes are those of this tree's programs, and everything in a process
// namespace that is not the machine's.
func processes() (list []string, err error) {
	own, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return nil, err
	}
	eachProcess(func(pid int) {
		line, err := os.ReadFile(procFile(pid, "cmdline"))
		if err != nil {
			return // it has ended
		}
		command := strings.TrimSpace(string(bytes.ReplaceAll(line, []byte{0}, []byte(" "))))
		program, _ := os.Readlink(procFile(pid, "exe"))
		space, _ := os.Readlink(procFile(pid, "ns/pid"))
		ours := strings.Contains(command+program, "aether") || strings.HasPrefix(program, labDir+"/")
		if pid != os.Getpid() && (ours || space != "" && space != own) {
			list = append(list, fmt.Sprintf("%d %s %.80s", pid, program, command))
		}
	})
	return list, nil
}

func procFile(pid int, name string) string { return filepath.Join("/proc", strconv.Itoa(pid), name) }

func eachProcess(visit func(pid int)) {
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil {
			visit(pid)
		}
	}
}

// mounts are the points and types of the machine's own.
func mounts() (list []string, err error) {
	text, err := os.ReadFile("/proc/self/mountinfo")
	for line := range strings.Lines(string(text)) {
		front, back, _ := strings.Cut(line, " - ")
		fields := strings.Fields(front)
		if kind := strings.Fields(back); len(fields) > 4 && len(kind) > 0 {
			list = append(list, fields[4]+" "+kind[0])
		}
	}
	return list, err
}

// groups are the control groups that the engine has made.
func groups() (list []string, err error) {
	err = filepath.WalkDir("/sys/fs/cgroup", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && strings.HasPrefix(d.Name(), "aether") {
			list = append(list, path)
		}
		return nil // a group that has just been removed
	})
	return list, err
}

// networks are the network namespaces that a process is in.
func networks() (list []string, err error) {
	eachProcess(func(pid int) {
		if space, err := os.Readlink(procFile(pid, "ns/net")); err == nil && !slices.Contains(list, space) {
			list = append(list, space)
		}
	})
	return list, nil
}

// scratchDirs are for what does not last, homes of users where a run directory
// may be.
var scratchDirs = []string{"/tmp/*", "/var/tmp/*", "/dev/shm/*"}

// runDirs are where the engine keeps what ends with its programs.
var runDirs = []string{"/run/aether", "/run/user/*/aether", "/home/*/.local/share/aether/run", "/home/*/.local/share/aether/images/work",
	"/var/lib/aether/images/work", "/var/lib/aether/images/locks", "/home/*/.local/share/aether/images/locks"}

// registry is the one file that stays: programs of the host, however many there have
// been, tell each other by locks on its bytes which ids their cells have.
const registry = "/run/aether/ids"

// files are temporary ones, and those that programs which have ended should have
// taken with them. Empty directories may stay.
func files() (list []string, err error) {
	for _, pattern := range scratchDirs {
		found, _ := filepath.Glob(pattern) // of a pattern that is right
		list = append(list, found...)
	}
	for _, pattern := range runDirs {
		dirs, _ := filepath.Glob(pattern)
		for _, dir := range dirs {
			err = errors.Join(err, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
				if err == nil && !d.IsDir() && path != registry && !strings.HasSuffix(path, daemonLog) {
					list = append(list, path)
				}
				return nil // one that has just been removed
			}))
		}
	}
	return list, err
}

// loops are the files behind loop devices.
func loops() (list []string, err error) {
	backing, err := filepath.Glob("/sys/block/loop*/loop/backing_file")
	for _, name := range backing {
		if text, err := os.ReadFile(name); err == nil {
			list = append(list, strings.TrimSpace(string(text)))
		}
	}
	return list, err
}
