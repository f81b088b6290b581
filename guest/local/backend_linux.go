package local

import (
	"context"
	"errors"
	"os"
	"syscall"

	"aether/guest"
	"aether/host/pty"
	"aether/sandbox"
)

// Backend starts processes in this process's own namespaces.
type Backend struct {
	root   string
	cgroup string
	later  lingering
}

var _ guest.Backend = (*Backend)(nil)

// New makes a back end for a root directory, "/" for this process's own. The
// cgroup is the directory of an own group of the unified hierarchy, in which a
// group is made for each process that may have to be ended with its daemons.
// Without one, such processes are found by what they inherit, which a process
// that wants to hide can shed.
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

// Root opens the root directory.
func (b *Backend) Root() (*os.File, error) { return os.Open(b.root) }

// HostID translates nothing.
func (b *Backend) HostID(uid, gid uint32) (int, int, error) { return int(uid), int(gid), nil }

// GuestID translates nothing.
func (b *Backend) GuestID(uid, gid uint32) (uint32, uint32) { return uid, gid }

// OpenPTY opens a terminal of this process's own /dev.
func (b *Backend) OpenPTY() (master, slave *os.File, err error) {
	master, err = os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	if slave, err = pty.Open(master); err != nil {
		return nil, nil, errors.Join(err, master.Close())
	}
	return master, slave, nil
}

// Start starts a process in a session of its own.
func (b *Backend) Start(_ context.Context, c guest.Command) (guest.Process, error) {
	attr := &syscall.SysProcAttr{Setsid: true, Credential: credential(c)}
	if b.root != "/" {
		attr.Chroot = b.root
	}
	p := &process{}
	env := c.Env
	if c.KillTree {
		var err error
		if p.tree, err = b.newTree(); err != nil {
			return nil, err
		}
		defer p.tree.started()
		env = p.tree.prepare(env, attr)
	}
	files, null, err := stdio(c, attr)
	if err != nil {
		return nil, errors.Join(err, p.tree.release())
	}
	p.Process, err = os.StartProcess(c.Path, c.Args, &os.ProcAttr{Dir: c.Dir, Env: env, Files: files, Sys: attr})
	if null != nil {
		null.Close()
	}
	if err != nil {
		return nil, errors.Join(startError(c.Path, err), p.tree.release())
	}
	return p, nil
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
