package daemon

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"aether/internal/bounded"
	"aether/internal/host/idrange"
	"aether/internal/host/upperdir"
)

// Written is what a sandbox has written over its image, as this host sees it.
type Written struct{ tree upperdir.Tree }

// UpperDir opens the upper directory of an overlay that was mounted with the option
// userxattr for a container whose ids are the host's.
func UpperDir(dir string) (*Written, error) {
	file, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	return &Written{upperdir.Tree{Dir: file, UserAttrs: true}}, nil
}

// First is a container's first process, as its daemon tells of it.
type First struct {
	Pid       int
	Container string
}

// Upper opens the upper directory of the overlay that is the root of a container's first
// process, which must run the guest program itself: with runtimes that have a kernel of
// their own it is another, and what is written is not where the host thinks. It is nil
// where this program does not see it, and where the daemon keeps files otherwise.
func (f First) Upper(guest string) (*Written, error) {
	if !f.runs(guest) {
		return nil, nil
	}
	w, err := upper(f.Pid)
	if w != nil && !f.runs(guest) { // it ended, and its number may have been another's
		return nil, errors.Join(syscall.ESRCH, w.tree.Dir.Close())
	}
	return w, err
}

// runs says that the process is still the container's, and runs a program.
func (f First) runs(program string) bool {
	executed, err := os.Stat(fmt.Sprintf("/proc/%d/exe", f.Pid))
	if err != nil {
		return false
	}
	named, err := os.Stat(program)
	_, itself := FindCounters(f.Pid, f.Container)
	return err == nil && itself && os.SameFile(executed, named)
}

func upper(pid int) (*Written, error) {
	mounts, err := bounded.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", pid), maxMounts)
	if err != nil {
		return nil, unseen(err)
	}
	dir, userAttrs := upperOf(string(mounts))
	if dir == "" {
		return nil, nil
	}
	owner, err := idrange.Inside(pid)
	if err != nil {
		return nil, unseen(err)
	}
	file, err := os.Open(dir)
	if err != nil {
		return nil, unseen(err)
	}
	return &Written{upperdir.Tree{Dir: file, UserAttrs: userAttrs, Owner: owner}}, nil
}

// maxMounts bounds what is read of a list of mounts.
const maxMounts = 16 << 20

// unseen forgives that something is not there for this program.
func unseen(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return nil
	}
	return err
}

// upperOf finds the upper directory of the overlay at the root in a list of mounts, as
// mountinfo has it, and whether that overlay keeps its records in user.overlay. It is empty
// for what is no overlay, or has a name that is not plain.
func upperOf(mounts string) (dir string, userAttrs bool) {
	for line := range strings.Lines(mounts) {
		mount, system, _ := strings.Cut(strings.TrimSpace(line), " - ")
		fields, rest := strings.Fields(mount), strings.Fields(system)
		if len(fields) < 5 || fields[4] != "/" || len(rest) != 3 {
			continue
		}
		dir, userAttrs = "", false // the last one covers the others
		if rest[0] != "overlay" {
			continue
		}
		for option := range strings.SplitSeq(rest[2], ",") {
			if value, ok := strings.CutPrefix(option, "upperdir="); ok && filepath.IsAbs(value) && !strings.Contains(value, `\`) {
				dir = value
			}
			userAttrs = userAttrs || option == "userxattr"
		}
	}
	return dir, userAttrs
}
