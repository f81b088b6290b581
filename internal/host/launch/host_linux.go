package launch

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"aether/internal/host/spawn"
	"aether/sandbox"

	"golang.org/x/sys/unix"
)

const (
	// idBase is the host id of the sandbox's id 0 when root starts programs: the
	// last block in the range that systemd reserves for containers.
	idBase  = 0x6fff0000
	idCount = 1 << 16

	// mapTime bounds how long a child waits for its ids.
	mapTime = 10 * time.Second
)

// Host is this program's ability to launch others.
type Host struct {
	// Single says that user namespaces have one id, the caller's.
	Single bool

	dir    string // what every program covers by a stage of its own
	thread *spawn.Thread
	userns *os.File // by which files are id-mapped; nil with a single id
}

// covers are directories that hosts have and that no program of theirs needs to
// start sandboxes. Everybody can pass through them, unlike this program's own.
var covers = []string{"/mnt", "/media", "/srv", "/opt", "/dev/shm"}

func coverable() (string, error) {
	for _, dir := range covers {
		if info, err := os.Lstat(dir); err == nil && info.IsDir() {
			return dir, nil
		}
	}
	return "", &sandbox.Error{Class: sandbox.Unavailable, Op: "launch", Reason: fmt.Sprintf("none of %q is a directory to mount on", covers), Remedy: "make /mnt"}
}

// Open makes a host.
func Open() (h *Host, err error) {
	h = &Host{Single: os.Geteuid() != 0}
	if h.dir, err = coverable(); err != nil {
		return nil, err
	}
	if h.thread, err = spawn.NewThread(func() error { return nil }); err != nil {
		return nil, fmt.Errorf("launch: %w", err)
	}
	if !h.Single {
		if h.userns, err = h.mappedNamespace(); err != nil {
			return nil, errors.Join(fmt.Errorf("launch: make a user namespace: %w", err), h.Close())
		}
	}
	return h, nil
}

// Close ends all programs that were started and still live.
func (h *Host) Close() error {
	h.thread.Close()
	if h.userns != nil {
		return h.userns.Close()
	}
	return nil
}

// mappedNamespace makes a user namespace in which nothing runs: it is what
// id-mapped mounts refer to.
func (h *Host) mappedNamespace() (file *os.File, err error) {
	s, err := spawn.NewScript(0)
	if err != nil {
		return nil, err
	}
	seen := s.Word()
	s.Wait(seen, mapTime)
	s.Exit()
	started, err := h.start(s, unix.CLONE_NEWUSER, -1)
	if err != nil {
		return nil, errors.Join(err, s.Free())
	}
	if err = h.writeMaps(started.Pid()); err == nil {
		file, err = os.Open(fmt.Sprintf("/proc/%d/ns/user", started.Pid()))
	}
	seen.Set()
	_, ended := started.Process().Wait()
	return file, errors.Join(err, ended, started.Done())
}

// start clones on the thread that lives as long as the host: parent-death signals
// follow the thread.
func (h *Host) start(s *spawn.Script, flags uint64, cgroup int) (started spawn.Started, err error) {
	err = h.thread.Do(func() (err error) {
		started, err = s.Start(flags, cgroup)
		return err
	})
	return started, err
}

// writeMaps gives a child in a new user namespace its ids.
func (h *Host) writeMaps(pid int) error {
	line := func(int) string { return fmt.Sprintf("0 %d %d\n", idBase, idCount) }
	if h.Single {
		line = func(own int) string { return fmt.Sprintf("0 %d 1\n", own) }
		restore, err := becomeDumpable()
		if err != nil {
			return err
		}
		defer restore()
	}
	dir := "/proc/" + strconv.Itoa(pid)
	if h.Single {
		if err := os.WriteFile(dir+"/setgroups", []byte("deny"), 0); err != nil {
			return err
		}
	}
	if err := os.WriteFile(dir+"/uid_map", []byte(line(os.Geteuid())), 0); err != nil {
		return err
	}
	return os.WriteFile(dir+"/gid_map", []byte(line(os.Getegid())), 0)
}

// becomeDumpable lets an ordinary user's program write to the files of its own
// children, which the kernel denies to programs that hide.
func becomeDumpable() (restore func(), err error) {
	was, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0)
	if err != nil || was == 1 {
		return func() {}, err
	}
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0); err != nil {
		return nil, os.NewSyscallError("prctl", err)
	}
	return func() { _ = unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0) }, nil
}
