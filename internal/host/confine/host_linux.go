package confine

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"

	"aether/internal/host/features"
	"aether/internal/host/idrange"
	"aether/internal/host/netpool"
	"aether/internal/host/seccomp"
	"aether/internal/host/spawn"
	"aether/internal/host/views"
	"aether/sandbox"

	"golang.org/x/sys/unix"
)

// Host is this program's ability to confine processes.
type Host struct {
	// Identity says whether cells have one id. Each cell has its own.
	Identity Identity

	dir      string // an empty directory of ours, on which stages are mounted
	proc     procView
	landlock int
	null     *os.File
	pause    *os.File
	self     *os.File          // this program, for its children to see whether it lives
	uts      *os.File          // the namespace of this program's host name; nil with a single id
	ranges   *idrange.Registry // of ids; nil with a single id
	exits    *spawn.Exits      // of cells
	without  map[string]bool   // parts of scripts to leave out, for tests
	shared   sharedIDs
	networks *netpool.Pool // nil if each cell makes a net namespace of its own

	threads []*spawner
	next    atomic.Uint32

	// inUse is held by those who use the files, for Close to wait for them: a command, or
	// a fork, may be on its way into a cell that ends.
	inUse  sync.RWMutex
	closed bool
}

// Options say how much to keep ready.
type Options struct {
	// Dir is where the host keeps an empty directory of its own.
	Dir string
	// KeepNetworks has root's cells share what there is of net namespaces, one after
	// another: one that was not used is kept for the next. It is for who makes many.
	KeepNetworks bool
	// Threads is how many threads clone; 0 means one for each processor.
	Threads int
	// Logger is told what fails in the background; nil means slog.Default().
	Logger *slog.Logger
}

// Open prepares this program for confining: from now on it cannot be traced or
// dumped by processes of other users or in cells.
func Open(opts Options) (h *Host, err error) {
	h = &Host{Identity: currentIdentity(), dir: filepath.Join(opts.Dir, "stage"), landlock: features.LandlockABI()}
	opened := h
	defer func() {
		if err != nil {
			opened.Close()
		}
	}()
	if err := os.MkdirAll(h.dir, 0o711); err != nil {
		return nil, fmt.Errorf("confine: %w", err)
	}
	if h.proc, err = procOf(h.Identity); err != nil {
		return nil, fmt.Errorf("confine: %w", err)
	}
	if err := h.openFiles(); err != nil {
		return nil, fmt.Errorf("confine: %w", err)
	}
	if !h.Identity.Single {
		if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
			return nil, fmt.Errorf("confine: become undumpable: %w", err)
		}
		// Not by /proc/self, which is the first thread: that one may just be naming a cell.
		if h.uts, err = os.Open("/proc/thread-self/ns/uts"); err != nil {
			return nil, fmt.Errorf("confine: %w", err)
		}
		if h.ranges, err = idrange.Open(opts.Dir); err != nil {
			return nil, fmt.Errorf("confine: %w", err)
		}
		if opts.KeepNetworks {
			if h.networks, err = netpool.Open(h.visitNetwork, cmp.Or(opts.Logger, slog.Default())); err != nil {
				return nil, fmt.Errorf("confine: %w", err)
			}
		}
	}
	go seccomp.Filter() //nolint:errcheck // whoever needs it waits for it, and is told
	for range cmp.Or(opts.Threads, runtime.GOMAXPROCS(0)) {
		t := &spawner{}
		if t.Thread, err = spawn.NewThread(func() error { return t.prepare(!h.Identity.Single) }); err != nil {
			return nil, fmt.Errorf("confine: start a thread: %w", err)
		}
		h.threads = append(h.threads, t)
	}
	if h.networks != nil {
		h.networks.Prepare()
	}
	return h, nil
}

func (h *Host) openFiles() (err error) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	if h.null, err = high(null); err != nil {
		return err
	}
	if h.pause, err = spawn.Pause(); err != nil {
		return err
	}
	if h.exits, err = spawn.WatchExits(); err != nil {
		return err
	}
	self, err := unix.PidfdOpen(os.Getpid(), 0)
	if err != nil {
		return os.NewSyscallError("pidfd_open", err)
	}
	h.self, err = high(os.NewFile(uintptr(self), "self"))
	return err
}

// Close ends the threads, and with them every cell.
func (h *Host) Close() {
	if h.networks != nil {
		h.networks.Close()
	}
	for _, t := range h.threads {
		t.Close()
	}
	h.inUse.Lock()
	defer h.inUse.Unlock()
	h.closed = true
	for _, f := range []*os.File{h.null, h.self, h.uts} {
		if f != nil {
			f.Close()
		}
	}
	if h.ranges != nil {
		h.ranges.Close()
	}
	if h.exits != nil {
		h.exits.Close()
	}
}

// use keeps the host open until release is called. Errors: NotFound, with the cells of one
// that is closed.
func (h *Host) use(op string) (release func(), err error) {
	h.inUse.RLock()
	if h.closed {
		h.inUse.RUnlock()
		return nil, &sandbox.Error{Class: sandbox.NotFound, Op: "confine: " + op, Reason: "the cell has ended"}
	}
	return h.inUse.RUnlock, nil
}

// on runs fn on one of the spawning threads, in turn.
func (h *Host) on(fn func(*spawner) error) error {
	t := h.threads[int(h.next.Add(1))%len(h.threads)]
	return t.Do(func() error { return fn(t) })
}

// visit has a child in new namespaces make the calls of build and wait until fn
// has seen to it. It does not wait long: it must not outlive us.
func (h *Host) visit(flags uint64, build func(script), fn func(pid int) error) error {
	s, err := h.script(0)
	if err != nil {
		return err
	}
	defer s.Free()
	seen := s.Word()
	s.initFiles(h)
	build(s)
	s.Announce(0)
	s.Wait(seen, handshake)
	s.Exit()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	started, err := s.Start(flags, -1)
	if err != nil {
		return err
	}
	if err = s.locate(started.Announced()); err == nil {
		err = fn(started.Pid())
	}
	seen.Set()
	_, ended := started.Process().Wait()
	return errors.Join(err, ended)
}

// Descriptors of a script that becomes an init. What scripts inherit from this
// program is above them (see high), so that nothing is overwritten.
const (
	initFd  = 3 // the program that only sleeps
	spareFd = 4 // /dev/null or, once there is one,
	upperFd = 4 // the directory of the cell's writes, which PID 1 keeps
	selfFd  = 5 // the program outside, and at last
	rootFd  = 5 // the cell's root, which PID 1 keeps
	stageFd = 6 // what steps of a stage open, the lowest that is free; or
	shownFd = 6 // where root's cells receive what they are shown, and PID 1 keeps what is sent later
	otherFd = 7 // the other end of that
	firstFd = 10
)

// initFiles gives the process its standard descriptors and the program that it
// will become.
func (s script) initFiles(h *Host) {
	s.part(partFiles)
	for fd := range uintptr(3) {
		s.Call(unix.SYS_DUP3, h.null.Fd(), fd, 0)
	}
	s.Call(unix.SYS_DUP3, h.pause.Fd(), initFd, unix.O_CLOEXEC)
	s.Call(unix.SYS_DUP3, h.null.Fd(), spareFd, unix.O_CLOEXEC)
	s.Call(unix.SYS_DUP3, h.self.Fd(), selfFd, unix.O_CLOEXEC)
	s.dieWithUs()
}

// executeInit ends a script by becoming the program that only sleeps, which keeps the
// descriptors up to one.
func (s script) executeInit(last uintptr) {
	s.closeFrom(last + 1)
	s.unmaskSignals()
	s.Call(unix.SYS_EXECVEAT, initFd, s.String(""), s.Strings([]string{"aether-init"}), s.Strings(nil), unix.AT_EMPTY_PATH)
}

// high moves a file to a descriptor above those that scripts use by number.
func high(f *os.File) (*os.File, error) {
	defer f.Close()
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, firstFd)
	if err != nil {
		return nil, os.NewSyscallError("fcntl", err)
	}
	return os.NewFile(uintptr(fd), f.Name()), nil
}

// Base is a tree made ready for cells.
type Base struct {
	host  *Host
	tree  Tree
	mount *os.File                    // the stage's mount namespace; nil if each cell makes its own
	last  atomic.Pointer[credentials] // of the last command, for the next to be alike
}

// Prepare makes a tree ready.
func (h *Host) Prepare(tree Tree) (_ *Base, err error) {
	if tree.views, err = views.Of(tree.Binds, h.Identity.Single); err != nil {
		return nil, fmt.Errorf("confine: prepare the image: %w", err)
	}
	b := &Base{host: h, tree: tree}
	if h.Identity.Single {
		return b, nil
	}
	build := func(s script) { s.stage(h.dir, tree, true) }
	err = h.visit(unix.CLONE_NEWNS, build, func(pid int) (err error) {
		b.mount, err = os.Open(fmt.Sprintf("/proc/%d/ns/mnt", pid))
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("confine: prepare the image: %w", err)
	}
	return b, nil
}

// Close lets go of the stage. Cells that were booted from it are not touched.
func (b *Base) Close() error {
	if b.mount == nil {
		return nil
	}
	return b.mount.Close()
}

// BoundsProcesses says whether the resource limit on processes holds in cells: the
// kernel exempts the host's user 0 from it.
func (h *Host) BoundsProcesses() bool { return !h.Identity.isRoot() }

// Gaps says what cells have to do without on this host.
func (h *Host) Gaps() []sandbox.Gap {
	var gaps []sandbox.Gap
	if h.Identity.isRoot() {
		gaps = append(gaps, sandbox.Gap{Missing: "the rights of root", Remedy: "run aether with CAP_SYS_ADMIN and CAP_SETUID, or as an ordinary user",
			Cost: "cells have one user id, the host's root's, do without landlock but on the host's network, and are slower to start"})
	} else if h.Identity.Single {
		gaps = append(gaps, sandbox.Gap{Missing: "root", Remedy: "run aether as root",
			Cost: "cells have one user id, make their net namespaces as they start, and are slower to start"})
	}
	if h.landlock < landlockLeastABI {
		gaps = append(gaps, sandbox.Gap{Missing: "landlock", Remedy: "use a kernel from 5.19 on with landlock among its security modules",
			Cost: "one layer less: mounts and device nodes are denied by capabilities and seccomp only"})
	}
	return gaps
}
