package checkpoint

import (
	"encoding/binary"
	"fmt"
	"os"
	"sync"

	"aether/internal/host/inroot"

	"golang.org/x/sys/unix"
)

// fileOpener opens the files that mappings show, in the process that maps them.
// Root opens the very files; others open them by their paths, in the root of the
// process, and look afterwards whether they are the same.
type fileOpener struct {
	memorySteps
	fd   uintptr // that the file is open at: the lowest that is free
	root bool    // the process's root is open below it
}

func (b memorySteps) files() *fileOpener {
	if b.inside {
		return &fileOpener{memorySteps: b, fd: memoryFd + 1}
	}
	return &fileOpener{memorySteps: b, fd: OpenFd}
}

// byPath says that files can only be opened by their paths.
var byPath = sync.OnceValue(func() bool {
	areas, err := readMaps(os.Getpid())
	if err != nil {
		return true
	}
	for _, a := range areas {
		if a.file() && !a.Shared {
			f, err := os.Open(fmt.Sprintf("/proc/self/map_files/%x-%x", a.Start, a.End))
			if err == nil {
				f.Close()
			}
			return err != nil
		}
	}
	return true
})

const here = ^uintptr(99) // AT_FDCWD

func (f *fileOpener) open(a VMA) {
	if f.inside {
		// The cell's own files; where the paths lead it could lead itself.
		f.Call(unix.SYS_OPENAT, here, f.String(a.Name), unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
		return
	}
	if !byPath() {
		path := fmt.Sprintf("/proc/%d/map_files/%x-%x", f.state.PID, a.Start, a.End)
		f.Call(unix.SYS_OPENAT, here, f.String(path), unix.O_RDONLY|unix.O_CLOEXEC, 0)
		return
	}
	if !f.root {
		f.root = true
		path := fmt.Sprintf("/proc/%d/root", f.state.PID)
		f.Call(unix.SYS_OPENAT, here, f.String(path), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		f.fd = OpenFd + 1
	}
	how, mem := f.Bytes(24)
	binary.NativeEndian.PutUint64(mem, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK)
	binary.NativeEndian.PutUint64(mem[16:], unix.RESOLVE_IN_ROOT)
	f.Call(unix.SYS_OPENAT2, OpenFd, f.String(a.Name), how, 24)
}

func (f *fileOpener) close() {
	if f.root {
		f.Call(unix.SYS_CLOSE, OpenFd)
	}
}

// checkFiles makes sure that the zygote maps the files that the process does.
func (s *State) checkFiles(pid int) error {
	if !byPath() {
		return nil
	}
	have, err := readMaps(pid)
	if err != nil {
		return err
	}
	for _, a := range s.vmas {
		for len(have) > 0 && have[0].End <= a.Start {
			have = have[1:] // what was two mappings there may be one here
		}
		if a.mapsFile(false) && !kernelVMA(a) && (len(have) == 0 || have[0].Start > a.Start || have[0].Inode != a.Inode) {
			return s.refuse(true, "maps %s, which is another file by now", a.Name)
		}
	}
	return nil
}

// pathMapping is what the process shares, for who can open files by their paths
// only.
func (s *State) pathMapping(m SharedMapping, a VMA) (SharedMapping, error) {
	root, err := inroot.Open(fmt.Sprintf("/proc/%d/root", s.PID))
	if err != nil {
		return m, err
	}
	defer root.Close()
	info, err := root.Stat(a.Name)
	if err != nil || !info.Mode.IsRegular() {
		return m, s.refuse(false, "shares memory at %x (%s), which takes root to carry over", a.Start, a.Name)
	}
	m.Path = a.Name
	return m, nil
}
