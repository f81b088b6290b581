package confine

import (
	"encoding/binary"

	"aether/internal/host/cgroup"
	"aether/internal/host/spawn"

	"golang.org/x/sys/unix"
)

// newcomer is what a child of a twin is in its cell whatever the process was, and
// whatever will be in the cell's files: it is in the namespaces, the groups and a
// session of its own.
type newcomer struct {
	cell  *Cell
	group cgroup.Attach
}

// come appends the coming: who walks the script receives what sendCell sends,
// joins the cell and has a child there, of that number, and ends. flags are
// further ones of the clone.
func (s script) come(n newcomer, tid int, flags uint64) {
	t := target{pidfd: sentCell, joined: n.cell.namespace, group: cgroup.Attach{Into: -1}, cgroupns: -1}
	count := 1 + len(n.group.Files)
	for i := range n.group.Files {
		t.group.Files = append(t.group.Files, sentGroups+i)
	}
	if n.group.Into >= 0 {
		t.group.Into, t.cgroupns = sentCell+count, sentCell+count+1
		count += 2
	}
	s.receive(count)
	s.enterNamespaces(t)
	s.emptyBounds()
	s.part(partBorn)
	child := s.Clone(spawn.Clone{Flags: flags | unix.CLONE_PARENT | unix.CLONE_PARENT_SETTID, Tids: []int{tid}, Cgroup: t.group.Into})
	s.Exit()
	s.Land(child)
	s.enterGroups(t)
	s.closeFrom(sentCell)
	s.part(partSession)
	s.Call(unix.SYS_SETSID)
	s.rlimits(n.cell.config.Processes)
}

// confine appends what else can be done ahead for a process that makes no others
// and no threads, each of which takes a call that the filter refuses.
func (s script) confine(n newcomer) error {
	s.part(partCapabilities)
	s.prctl(unix.PR_SET_NO_NEW_PRIVS, 1)
	s.rules(n.cell)
	return s.filter()
}

// rules appends those of the cell for files and sockets. No descriptors but the
// standard ones are open.
func (s script) rules(c *Cell) { s.landlock(c.host.landlock, c.config.HostNetwork, 3) }

// dropButOne is dropTo, but for what it takes to make threads with given
// numbers.
func (s script) dropButOne(who credentials) {
	s.part(partCapabilities)
	s.prctl(unix.PR_SET_NO_NEW_PRIVS, 1)
	s.prctl(unix.PR_SET_KEEPCAPS, 1)
	s.become(who)
	s.prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL)
	s.capabilities(1 << unix.CAP_CHECKPOINT_RESTORE)
}

// dropLast takes that away too; every thread does so.
func (s script) dropLast() { s.capabilities(0) }

// capabilities sets the effective and permitted ones.
func (s script) capabilities(set uint64) {
	header, h := s.Bytes(8)
	binary.LittleEndian.PutUint32(h, unix.LINUX_CAPABILITY_VERSION_3)
	data, mem := s.Bytes(24)
	for half := range 2 {
		word := uint32(set >> (32 * half))
		binary.LittleEndian.PutUint32(mem[12*half:], word)
		binary.LittleEndian.PutUint32(mem[12*half+4:], word)
	}
	s.Call(unix.SYS_CAPSET, header, data)
}
