package confine

import (
	"aether/internal/host/cgroup"
	"aether/internal/host/spawn"

	"golang.org/x/sys/unix"
)

// Steps confine a process that has its memory already, and so executes nothing: one
// that is restored from a checkpoint. They are written to a script of the caller's,
// between the steps that restore the rest, and leave the process under the rules
// that a command of the cell is under.
type Steps struct{ script }

// Filters is how many system call filters a process of a cell is under that has
// added none.
const Filters = 1

// Steps writes to a script.
func (h *Host) Steps(s *spawn.Script) Steps { return Steps{script{s, &plan{without: h.without}}} }

// Joining is a cell that a process joins, and the groups where it is accounted.
type Joining struct {
	Cell  *Cell
	Group cgroup.Way
}

// WithFiles runs fn with the descriptors that Join needs.
func (j Joining) WithFiles(fn func(fds []int) error) error {
	return j.Cell.withTarget(j.Group, func(t target) error {
		files := append([]int{t.pidfd}, t.group.Files...)
		if t.network >= 0 {
			files = append(files, t.network)
		}
		if t.group.Into >= 0 {
			files = append(files, t.group.Into, t.cgroupns)
		}
		return fn(files)
	})
}

// received is where one who joins has what WithFiles gives, from a descriptor on, and how many
// those are.
func (j Joining) received(first int) (t target, count int) {
	next := func() int {
		count++
		return first + count - 1
	}
	t = target{pidfd: next(), joined: j.Cell.joined(), network: -1, group: cgroup.Attach{Into: -1}, cgroupns: -1}
	for range j.Group.Files() {
		t.group.Files = append(t.group.Files, next())
	}
	if j.Cell.leased() {
		t.network = next()
	}
	if j.Group.Clones() {
		t.group.Into, t.cgroupns = next(), next()
	}
	return t, count
}

// Join appends the joining of the cell: who walks the script receives by a socket
// what WithFiles gives, joins the namespaces, clones a child that has the number
// nspid in the cell, and exits. The child, for which the steps that follow are, is
// in the cell's groups and begins a session. The first descriptor that is free must
// be 3. flags are further ones of the clone.
func (s Steps) Join(j Joining, socket, nspid int, flags uint64) {
	const first = 3
	t, count := j.received(first)
	s.Receive(socket, count, unix.MSG_CMSG_CLOEXEC|unix.MSG_DONTWAIT)
	clock := s.openOffsets(j.Cell)
	s.enterNamespaces(t)
	s.ownClock(j.Cell, clock)
	s.emptyBounds()
	s.part(partBorn)
	child := s.Clone(spawn.Clone{Flags: flags | unix.CLONE_PARENT | unix.CLONE_PARENT_SETTID, Tids: []int{nspid}, Cgroup: t.group.Into})
	s.Exit()
	s.Land(child)
	s.enterGroups(t)
	s.closeFrom(first)
	s.part(partSession)
	s.Call(unix.SYS_SETSID)
	s.rlimits(j.Cell.config.Processes)
}

// ConfineEarly appends the rules and the filter for a process that makes neither
// threads nor other processes: the filter refuses the calls that give those their
// numbers.
func (s Steps) ConfineEarly(c *Cell) error {
	s.part(partCapabilities)
	s.prctl(unix.PR_SET_NO_NEW_PRIVS, 1)
	s.Rules(c)
	return s.filter()
}

// Rules appends those of the cell for files and sockets. No descriptors but the
// standard ones may be open.
func (s Steps) Rules(c *Cell) { s.landlock(c.host.landlockIn(c.config), c.config.HostNetwork, 3) }

// Credentials is who a process of a cell is, by ids of the cell.
type Credentials struct {
	UID, GID uint32
	Groups   []uint32
}

// DropButOne appends the change of identity and the loss of all capabilities but
// the one that it takes to make threads with given numbers.
func (s Steps) DropButOne(c *Cell, who Credentials) {
	s.part(partCapabilities)
	s.prctl(unix.PR_SET_NO_NEW_PRIVS, 1)
	s.prctl(unix.PR_SET_KEEPCAPS, 1)
	s.become(credentials{uid: who.UID, gid: who.GID, groups: who.Groups, single: c.host.Identity.Single})
	s.prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL)
	s.capabilities(1 << unix.CAP_CHECKPOINT_RESTORE)
}

// DropLast takes that away too; every thread does so.
func (s Steps) DropLast() { s.capabilities(0) }

// FilterThreads appends the system call filter, for all threads of the process.
func (s Steps) FilterThreads() error {
	return s.filterWith(unix.SECCOMP_FILTER_FLAG_TSYNC | unix.SECCOMP_FILTER_FLAG_TSYNC_ESRCH)
}

// DieWithParent has the kernel kill the process when the thread that is its parent
// ends, and ends it if that has happened already: then it has another parent than
// the one named.
func (s Steps) DieWithParent(parent int) {
	s.prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL))
	number, _ := s.Bytes(8)
	s.Call(unix.SYS_GETPPID).IntoAddress(number)
	s.Expect(number, uint32(parent))
}
