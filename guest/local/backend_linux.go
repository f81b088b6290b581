package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"syscall"

	"aether/guest"
	"aether/internal/host/pty"
	"aether/internal/host/subreaper"
	"aether/sandbox"
)

// Backend starts processes in this process's own namespaces.
type Backend struct {
	root   string
	cgroup string
	later  lingering
	// guarded counts whom GuardMemory killed.
	guarded atomic.Int64

	children *subreaper.Children // nil unless this is the first process
	adjust   *os.File            // this process's oom_score_adj
	adjusted int                 // what it said at first
}

var _ guest.Backend = (*Backend)(nil)

// New makes a back end for a root directory, "/" for this process's own. The
// cgroup is the directory of an own group of the unified hierarchy, in which all
// processes run, each that may have to be ended with its daemons in a group of
// its own. Without one, such processes are found by what they inherit, which a
// process that wants to hide can shed.
func New(root, cgroup string) (*Backend, error) {
	info, err := os.Stat(root)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return nil, sandbox.Invalidf("root", "%q is not a directory", root)
	}
	return &Backend{root: root, cgroup: cgroup}, nil
}

// AsInit makes the back end start processes as the first process of a sandbox
// has to: all children are awaited in one place as long as this process lives,
// orphans included, and when memory is short the kernel kills a command rather
// than its service.
func (b *Backend) AsInit() (err error) {
	if b.children, err = subreaper.Adopt(); err != nil {
		return err
	}
	b.adjust, b.adjusted, err = openAdjust()
	return err
}

// Root opens the root directory.
func (b *Backend) Root() (*os.File, error) { return os.Open(b.root) }

// HostID translates nothing, and refuses what an unprivileged process cannot be.
func (b *Backend) HostID(uid, gid uint32) (int, int, error) {
	if own := os.Geteuid(); own != 0 && (int(uid) != own || int(gid) != os.Getegid()) {
		return 0, 0, &sandbox.Error{Class: sandbox.Unavailable, Field: "user",
			Reason: fmt.Sprintf("this sandbox has the ids %d:%d only, not %d:%d", own, os.Getegid(), uid, gid),
			Remedy: "run aether as root for other users inside"}
	}
	return int(uid), int(gid), nil
}

// GuestID translates nothing.
func (b *Backend) GuestID(uid, gid uint32) (uint32, uint32) { return uid, gid }

// OpenPTY opens a terminal of this process's own /dev.
func (b *Backend) OpenPTY() (master, slave *os.File, err error) {
	master, err = os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	slave, err = pty.Open(master)
	if errors.Is(err, syscall.ENOTTY) { // gVisor's kernel finds it by its name only
		slave, err = openByNumber(master)
	}
	if err != nil {
		return nil, nil, errors.Join(err, master.Close())
	}
	return master, slave, nil
}

func openByNumber(master *os.File) (*os.File, error) {
	n, err := pty.Number(master)
	if err != nil {
		return nil, err
	}
	return os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|syscall.O_NOCTTY, 0)
}

// Start starts a process in a session of its own.
func (b *Backend) Start(_ context.Context, c guest.Command) (guest.Process, error) {
	if _, _, err := b.HostID(c.UID, c.GID); err != nil {
		return nil, err
	}
	attr := &syscall.SysProcAttr{Setsid: true, Credential: credential(c)}
	if b.root != "/" {
		attr.Chroot = b.root
	}
	p := &process{backend: b}
	var err error
	if p.killed, err = b.oomKills(); err != nil {
		return nil, err
	}
	env := c.Env
	if c.KillTree {
		if p.tree, err = b.newTree(); err != nil {
			return nil, err
		}
		defer p.tree.started()
		env = p.tree.prepare(env, attr)
	} else if group, err := b.group(attr); err != nil {
		return nil, err
	} else if group != nil {
		defer group.Close()
	}
	files, null, err := stdio(c, attr)
	if err != nil {
		return nil, errors.Join(err, p.tree.release())
	}
	p.child, err = b.launch(c.Path, c.Args, &os.ProcAttr{Dir: c.Dir, Env: env, Files: files, Sys: attr})
	if null != nil {
		null.Close()
	}
	if err != nil {
		return nil, errors.Join(startError(c.Path, err), p.tree.release())
	}
	return p, nil
}

// group makes a process start in the group of all commands, if there is one.
func (b *Backend) group(attr *syscall.SysProcAttr) (*os.File, error) {
	if b.cgroup == "" {
		return nil, nil
	}
	dir, err := os.Open(b.cgroup)
	if err != nil {
		return nil, err
	}
	attr.UseCgroupFD, attr.CgroupFD = true, int(dir.Fd())
	return dir, nil
}

// credential is nil where nothing changes, so that this also works for a
// process that may not change anything.
func credential(c guest.Command) *syscall.Credential {
	if os.Geteuid() != 0 && int(c.UID) == os.Getuid() {
		return nil
	}
	return &syscall.Credential{Uid: c.UID, Gid: c.GID, Groups: c.Groups}
}

func stdio(c guest.Command, attr *syscall.SysProcAttr) (files []*os.File, null *os.File, err error) {
	if c.TTY != nil {
		attr.Setctty = true
		return []*os.File{c.TTY, c.TTY, c.TTY}, nil, nil
	}
	files = []*os.File{c.Stdin, c.Stdout, c.Stderr}
	for i, f := range files {
		if f != nil {
			continue
		}
		if null == nil {
			if null, err = os.OpenFile(os.DevNull, os.O_RDWR, 0); err != nil {
				return nil, nil, err
			}
		}
		files[i] = null
	}
	return files, null, nil
}

func startError(path string, err error) error {
	class := sandbox.Internal
	switch {
	case errors.Is(err, syscall.ENOENT):
		class = sandbox.NotFound
	case errors.Is(err, syscall.EACCES) || errors.Is(err, syscall.EPERM):
		class = sandbox.Denied
	case errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.ENOMEM):
		class = sandbox.Exhausted
	case errors.Is(err, syscall.ENOEXEC) || errors.Is(err, syscall.E2BIG):
		class = sandbox.Invalid
	}
	return &sandbox.Error{Class: class, Op: "start " + path, Err: err}
}
