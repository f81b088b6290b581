package jail

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"

	"aether/internal/host/coredump"
	"aether/internal/host/idrange"
	"aether/internal/host/spawn"

	"golang.org/x/sys/unix"
)

// Program is one to be started.
type Program struct {
	// Exe is the program itself, which needs no other file: a static one.
	Exe  *os.File
	Args []string
	Env  []string
	// Files are its descriptors, from 0 on.
	Files []*os.File
	// ID is the user and group that it has where this program has the rights of root.
	ID int
	// Alone leaves it without the host's network.
	Alone bool
	// Into is the directory of the cgroup that it starts in, or -1 (or 0) for ours; to Enter
	// it writes, which moves it into groups of version 1.
	Into  int
	Enter []int
}

const (
	namespaces = unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP
	aboveFiles = 512
	exeFd      = aboveFiles - 1
	// inside is the id that an ordinary user's program has in its user namespace: not
	// root's, so that it executes without capabilities.
	inside = 1000
)

// Start starts a program, which is killed when the thread that called this one ends.
// Errors: spawn.Failure names the step that the kernel refused.
func Start(p Program) (*spawn.Process, error) {
	s, err := spawn.NewScript(spawn.Size(p.Args) + spawn.Size(p.Env) + 8<<10)
	if err != nil {
		return nil, fmt.Errorf("jail: %w", err)
	}
	flags := uint64(namespaces)
	asRoot := idrange.Capable(unix.CAP_SYS_ADMIN) // which the root of a container mostly has not
	if !asRoot {
		flags |= unix.CLONE_NEWUSER
		mapSelf(s)
	}
	if p.Alone {
		flags |= unix.CLONE_NEWNET
	}
	for _, fd := range p.Enter {
		s.Call(unix.SYS_WRITE, uintptr(fd), s.String("0"), 1)
	}
	emptyRoot(s)
	files(s, p)
	loseRights(s, p.ID, asRoot)
	s.Call(unix.SYS_PRCTL, unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL))
	s.Call(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, s.NoSignals(), 0, 8)
	s.Call(unix.SYS_EXECVEAT, exeFd, s.String(""), s.Strings(p.Args), s.Strings(p.Env), unix.AT_EMPTY_PATH)
	if err := s.Err(); err != nil {
		return nil, errors.Join(fmt.Errorf("jail: %w", err), s.Free())
	}
	var process *spawn.Process
	err = spawn.Visible(func() (err error) { process, err = start(s, flags, p.Into); return err })
	if err != nil {
		return nil, fmt.Errorf("jail: %w", err)
	}
	return process, nil
}

// start walks the script to the program's execution.
func start(s *spawn.Script, flags uint64, into int) (*spawn.Process, error) {
	if into <= 0 {
		into = -1
	}
	started, err := s.Start(flags, into)
	if err != nil {
		return nil, errors.Join(err, s.Free())
	}
	process, err := started.Await()
	return process, errors.Join(err, started.Done())
}

// mapSelf appends the mapping of the one id that an ordinary user may map.
func mapSelf(s *spawn.Script) {
	s.Call(unix.SYS_PRCTL, unix.PR_SET_DUMPABLE, 1) // or the files belong to root
	for _, f := range []struct{ path, text string }{
		{"/proc/self/setgroups", "deny"},
		{"/proc/self/uid_map", fmt.Sprintf("%d %d 1\n", inside, os.Geteuid())},
		{"/proc/self/gid_map", fmt.Sprintf("%d %d 1\n", inside, os.Getegid())},
	} {
		here := unix.AT_FDCWD
		s.Call(unix.SYS_OPENAT, uintptr(here), s.String(f.path), unix.O_WRONLY|unix.O_CLOEXEC, 0).
			Into(s.Call(unix.SYS_WRITE, 0, s.String(f.text), uintptr(len(f.text))), 0)
	}
}

// emptyRoot appends what makes the root a directory with nothing in it, on any directory
// that every host has.
func emptyRoot(s *spawn.Script) {
	place, none := s.String("/proc"), s.String("none")
	s.Call(unix.SYS_MOUNT, none, s.String("/"), 0, unix.MS_REC|unix.MS_PRIVATE, 0)
	s.Call(unix.SYS_MOUNT, none, place, s.String("tmpfs"), unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, s.String("size=4k,nr_inodes=2,mode=555"))
	s.Call(unix.SYS_CHDIR, place)
	s.Call(unix.SYS_PIVOT_ROOT, s.String("."), s.String("."))
	s.Call(unix.SYS_UMOUNT2, s.String("."), unix.MNT_DETACH)
	s.Call(unix.SYS_CHDIR, s.String("/"))
	s.Call(unix.SYS_MOUNT, none, s.String("/"), 0, unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, 0)
}

// files gives descriptors their numbers, all of them copied out of the way first.
func files(s *spawn.Script, p Program) {
	copies := make([]spawn.Step, len(p.Files))
	for i, file := range p.Files {
		copies[i] = s.Call(unix.SYS_FCNTL, file.Fd(), unix.F_DUPFD_CLOEXEC, aboveFiles)
	}
	s.Call(unix.SYS_FCNTL, p.Exe.Fd(), unix.F_DUPFD_CLOEXEC, aboveFiles).
		Into(s.Call(unix.SYS_DUP3, 0, exeFd, unix.O_CLOEXEC), 0)
	s.Call(unix.SYS_CLOSE_RANGE, 0, ^uintptr(0)>>32, unix.CLOSE_RANGE_CLOEXEC)
	for i := range p.Files {
		copies[i].Into(s.Call(unix.SYS_DUP3, 0, uintptr(i), 0), 0)
	}
}

// loseRights appends the loss of all that root or the creator of a user namespace has.
func loseRights(s *spawn.Script, id int, asRoot bool) {
	if asRoot {
		s.Call(unix.SYS_SETGROUPS, 0, 0)
		s.Call(unix.SYS_SETRESGID, uintptr(id), uintptr(id), uintptr(id))
		s.Call(unix.SYS_SETRESUID, uintptr(id), uintptr(id), uintptr(id))
	}
	const headSize, dataSize = 8, 24
	head, mem := s.Bytes(headSize)
	copy(mem, []byte{0x22, 0x05, 0x08, 0x20}) // version 3
	data, _ := s.Bytes(dataSize)
	s.Call(unix.SYS_CAPSET, head, data)
	limit, mem := s.Bytes(16)
	binary.NativeEndian.PutUint64(mem, coredump.Limit)
	binary.NativeEndian.PutUint64(mem[8:], coredump.Limit)
	s.Call(unix.SYS_PRLIMIT64, 0, unix.RLIMIT_CORE, limit, 0)
	s.Call(unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
}
