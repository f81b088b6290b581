package cgroup

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"aether/sandbox"
)

const (
	remedyRoot     = "run as root"
	remedyDelegate = "run as root, or in a delegated group: systemd-run --user --scope -p Delegate=yes aether ..."
	remedyUser     = "systemctl edit user@.service, and add [Service] Delegate=cpu io memory pids"
	remedyReadOnly = "mount it writable; in a container, as its runtime allows"
	remedyCrowded  = "start it alone in a group: systemd-run --scope -p Delegate=yes aether ..., with --user as an ordinary user"
)

// Detect finds the groups of this process and what it may do below them. It
// changes nothing. A host without usable control groups is no error: Holds is
// then empty and Enforces says why.
func Detect() (*Hierarchy, error) {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("cgroup: %w", err)
	}
	membership, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil, fmt.Errorf("cgroup: %w", err)
	}
	return detect(string(mounts), string(membership)), nil
}

func detect(mountinfo, membership string) *Hierarchy {
	h := &Hierarchy{missing: map[Controller]*sandbox.Error{}}
	mounts, groups := parseMounts(mountinfo), parseMembership(membership)
	h.Layout = layoutOf(mounts)
	if i := slices.IndexFunc(mounts, func(m mount) bool { return m.unified }); i >= 0 {
		h.addUnified(mounts[i], groups[""])
	}
	want := limiting
	if len(h.trees) == 0 {
		want |= account | freezer
	}
	for _, m := range mounts {
		if !m.unified {
			h.addLegacy(m, groups, want&^h.held())
		}
	}
	// Version 2 goes last: a process enters it by clone, the others by writing.
	slices.Reverse(h.trees)
	return h
}

func layoutOf(mounts []mount) Layout {
	var unified, legacy bool
	for _, m := range mounts {
		unified = unified || m.unified
		legacy = legacy || parseControllers(m.controllers)&limiting != 0
	}
	switch {
	case unified && legacy:
		return Hybrid
	case unified:
		return V2
	case legacy:
		return V1
	}
	return NoLayout
}

// addLegacy uses a version 1 mount if it has any wanted controller.
func (h *Hierarchy) addLegacy(m mount, groups map[string]string, want Controller) {
	holds := parseControllers(m.controllers) & want
	if holds == 0 {
		return
	}
	dir, err := m.directory(groups[holds.first()])
	if err == nil {
		err = writable(dir)
	}
	if err != nil {
		h.refuse(holds, fmt.Sprintf("this user may not make groups in %s: %v", m.point, err), remedyRoot)
		return
	}
	h.trees = append(h.trees, tree{base: dir, holds: holds})
}

// refuse keeps the reason for each controller of the set.
func (h *Hierarchy) refuse(set Controller, reason, remedy string) {
	for _, known := range controllerNames {
		if set&known.bit != 0 {
			h.missing[known.bit] = unavailable(known.bit, reason, remedy)
		}
	}
}

// addUnified finds the place in the version 2 tree. Controllers are only given
// to groups whose parent holds no process, so the nearest such ancestor that we
// may write to is taken; without one, groups without controllers still count
// processor time, freeze and kill.
func (h *Hierarchy) addUnified(m mount, group string) {
	own, err := m.directory(group)
	if err == nil {
		err = delegated(own)
	}
	if err != nil {
		remedy := remedyDelegate
		if errors.Is(err, unix.EROFS) {
			remedy = remedyReadOnly
		}
		h.refuse(limiting, fmt.Sprintf("this user may not make groups in %s: %v", m.point, err), remedy)
		return
	}
	t := tree{base: own, unified: true, holds: controllersOf(own)}
	if h.Layout == V2 {
		t = h.makeRoom(t, m.point)
	}
	h.trees = append(h.trees, t)
}

// makeRoom moves the tree's base to where controllers can be given away, and
// says which cannot be had.
func (h *Hierarchy) makeRoom(t tree, point string) tree {
	place, crowded, ok := roomy(t.base, point)
	if !ok {
		h.refuse(t.holds, "other processes share the group "+t.base+", and version 2 then gives no controllers below it", remedyCrowded)
		t.holds = 0
		return t
	}
	if wide, found := wider(place, point); found {
		place, crowded = wide, false
	}
	t = tree{base: place, unified: true, holds: controllersOf(place), crowded: crowded}
	remedy := remedyUser
	if os.Geteuid() == 0 {
		remedy = remedyCrowded
	}
	h.refuse(limiting&^t.holds, "the controller is not delegated to "+place, remedy)
	return t
}

// roomy finds the nearest group from own up to the mount point below which
// controllers can be given away.
func roomy(own, point string) (place string, crowded, ok bool) {
	for dir := own; ; dir = path.Dir(dir) {
		if delegated(dir) != nil {
			return "", false, false
		}
		empty, onlyUs := occupants(dir)
		switch {
		case empty || isRoot(dir):
			return dir, false, true
		case onlyUs:
			return dir, true, true
		case dir == point || len(dir) <= 1:
			return "", false, false
		}
	}
}

// wider finds the nearest group above one that lacks a controller where none is
// lacking. systemd hands a controller down only as far as a unit asks for it, and
// on a fresh host none asks for a share of the processors.
func wider(place, point string) (string, bool) {
	if controllersOf(place)&usual == usual {
		return "", false
	}
	for dir := place; dir != point && len(dir) > 1; {
		dir = path.Dir(dir)
		if delegated(dir) != nil {
			return "", false
		}
		if empty, _ := occupants(dir); (empty || isRoot(dir)) && controllersOf(dir)&usual == usual {
			return dir, true
		}
	}
	return "", false
}

// isRoot tells the root of the whole tree, where processes and controllers may
// meet, from the root of a cgroup namespace, where they may not.
func isRoot(dir string) bool {
	_, err := os.Lstat(path.Join(dir, "cgroup.type"))
	return os.IsNotExist(err)
}

// occupants says whether a group holds no process, or none but this one and what it has
// started: other threads may be starting something at this moment.
func occupants(dir string) (empty, onlyUs bool) {
	text, err := os.ReadFile(path.Join(dir, "cgroup.procs"))
	if err != nil {
		return false, false
	}
	pids := bytes.Fields(text)
	foreign := func(pid []byte) bool {
		n, err := strconv.Atoi(string(pid))
		return err != nil || !startedHere(n)
	}
	return len(pids) == 0, len(pids) > 0 && !slices.ContainsFunc(pids, foreign)
}

// mostAncestors bounds the way from a process to this one. Commands are grandchildren.
const mostAncestors = 8

// startedHere says whether a process is this one, was started by it, or has ended. One of
// another pid namespace has no number here, which the kernel writes as 0.
func startedHere(pid int) bool {
	for up := range mostAncestors {
		if pid == os.Getpid() {
			return true
		}
		parent, err := parentOf(pid)
		if err != nil {
			ended := errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ESRCH)
			return up == 0 && pid > 0 && ended
		}
		pid = parent
	}
	return false
}

func parentOf(pid int) (int, error) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, err
	}
	// PID (NAME) STATE PARENT; names have any characters.
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	if len(fields) < 2 {
		return 0, fmt.Errorf("cgroup: /proc/%d/stat has no parent", pid)
	}
	return strconv.Atoi(string(fields[1]))
}

func controllersOf(dir string) Controller {
	text, err := os.ReadFile(path.Join(dir, "cgroup.controllers"))
	if err != nil {
		return 0
	}
	return parseControllers(strings.Fields(string(text))) & limiting
}

func writable(dir string) error {
	return unix.Faccessat(unix.AT_FDCWD, dir, unix.W_OK|unix.X_OK, unix.AT_EACCESS)
}

// delegated: the directory and the two files that moving and limiting need.
func delegated(dir string) error {
	if err := writable(dir); err != nil {
		return err
	}
	for _, file := range []string{"cgroup.procs", "cgroup.subtree_control"} {
		if err := unix.Faccessat(unix.AT_FDCWD, path.Join(dir, file), unix.W_OK, unix.AT_EACCESS); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
	}
	return nil
}
