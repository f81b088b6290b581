package confine

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// procView is how cells see /proc.
type procView struct {
	options string // of the mount
	masks   []mask
}

// mask is a part of /proc that shows or does things to the whole machine.
type mask struct{ name, cover string }

// masked is what container runtimes hide or make read-only, all hidden.
var masked = []string{"acpi", "asound", "bus", "fs", "interrupts", "irq", "kcore", "keys", "latency_stats",
	"sched_debug", "scsi", "sysrq-trigger", "timer_list", "timer_stats"}

// procOf decides it. Files that only the host's root may open need no cover, for
// nobody in a cell is that, unless it is the host's root that runs cells with its
// own id. Such a cell also sees no process of another owner, or whose memory
// cannot be dumped: files of those belong to the host's root, so that the cell
// could otherwise change how PID 1 and commands that are just entering, which
// share this program's memory, are killed.
func procOf(id Identity) (procView, error) {
	if !id.isRoot() {
		return procView{masks: masks(os.DirFS("/proc"), false)}, nil
	}
	closed, err := closedFiles(os.DirFS("/proc"))
	return procView{options: "hidepid=ptraceable", masks: append(masks(os.DirFS("/proc"), true), closed...)}, err
}

// masks keeps what the kernel has, each with what covers it.
func masks(proc fs.FS, rootInside bool) []mask {
	var list []mask
	for _, name := range masked {
		info, err := fs.Stat(proc, name)
		switch {
		case err != nil:
		case info.IsDir():
			list = append(list, mask{name, ownBlank})
		case rootInside || info.Mode().Perm()&0o077 != 0:
			list = append(list, mask{name, ownEmpty})
		}
	}
	return list
}

// closedFiles finds what is left of /proc that is root's alone to read or to
// write. What is of processes is hidden otherwise, sys/net is the cell's own, and
// what the host has mounted there no cell has.
func closedFiles(proc fs.FS) (list []mask, err error) {
	top, err := fs.Stat(proc, ".")
	if err != nil {
		return nil, err
	}
	err = fs.WalkDir(proc, ".", func(name string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
			return nil // it has gone, or is nobody's to look at
		}
		if err != nil {
			return err
		}
		if entry.IsDir() && (ofProcess(name) || name == "sys/net" || slices.Contains(masked, name)) {
			return fs.SkipDir
		}
		info, err := entry.Info()
		if err != nil || slices.Contains(masked, name) {
			return nil
		}
		if deviceOf(info) != deviceOf(top) {
			return skip(entry)
		}
		return cover(&list, name, info.Mode())
	})
	return list, err
}

func deviceOf(info fs.FileInfo) uint64 {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(stat.Dev)
	}
	return 0
}

func skip(entry fs.DirEntry) error {
	if entry.IsDir() {
		return fs.SkipDir
	}
	return nil
}

func cover(list *[]mask, name string, mode fs.FileMode) error {
	switch {
	case mode.IsDir() && mode.Perm()&0o005 != 0o005:
		*list = append(*list, mask{name, ownBlank})
		return fs.SkipDir
	case mode.IsRegular() && rootsAlone(name, mode.Perm()):
		*list = append(*list, mask{name, ownEmpty})
	}
	return nil
}

// rootsAlone says whether only root may read a file or, where it is not mounted
// read-only anyway, write it.
func rootsAlone(name string, mode fs.FileMode) bool {
	writes := mode&0o200 != 0 && mode&0o002 == 0 && !strings.HasPrefix(name, "sys/")
	return mode&0o004 == 0 || writes
}

// ofProcess says that a path is a process's, or a link to one's.
func ofProcess(name string) bool {
	first, _, _ := strings.Cut(filepath.ToSlash(name), "/")
	return strings.Trim(first, "0123456789") == "" || first == "self" || first == "thread-self"
}

// mask covers what is not a cell's to see in the /proc at proc.
func (s script) mask(proc string, masks []mask) {
	for _, m := range masks {
		s.mount(m.cover, proc+"/"+m.name, "none", unix.MS_BIND, "")
	}
	s.bind(proc+"/sys", proc+"/sys")
	s.setattr(here, proc+"/sys", 0, readOnly|unix.MOUNT_ATTR_NOEXEC)
}
