package confine

import (
	"encoding/binary"
	"math"
	"unsafe"

	"aether/internal/host/coredump"
	"aether/internal/host/seccomp"

	"golang.org/x/sys/unix"
)

// lastCapability bounds the loop that empties the bounding set; the kernel
// refuses numbers that it does not have, which is fine.
const lastCapability = 40

// credentials is who a process of a cell is.
type credentials struct {
	uid, gid uint32
	groups   []uint32
	single   bool // there is one id: nothing to change to
}

// emptyBounds appends the loss of the capabilities that an execution could give
// back. PID 1, which executes nothing after its own program, goes without.
func (s script) emptyBounds() {
	if !s.part(partBounds) {
		return
	}
	for capability := range uintptr(lastCapability + 1) {
		s.prctl(unix.PR_CAPBSET_DROP, capability).MayFail()
	}
}

// dropTo appends the loss of every privilege: new ones by execution, the
// identity, and the capabilities of the user namespace.
func (s script) dropTo(c credentials) {
	s.prctl(unix.PR_SET_NO_NEW_PRIVS, 1)
	s.become(c)
	s.prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL)
	s.capabilities(0)
}

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

// become appends the change of identity. It takes no capabilities away: those of
// a user namespace survive a change between ids that are not its root.
func (s script) become(c credentials) {
	if c.single {
		return
	}
	s.groups(c.groups)
	s.Call(unix.SYS_SETRESGID, uintptr(c.gid), uintptr(c.gid), uintptr(c.gid))
	s.Call(unix.SYS_SETRESUID, uintptr(c.uid), uintptr(c.uid), uintptr(c.uid))
}

func (s script) groups(list []uint32) {
	address, mem := s.Bytes(max(4*len(list), 8))
	for i, gid := range list {
		binary.LittleEndian.PutUint32(mem[4*i:], gid)
	}
	s.Call(unix.SYS_SETGROUPS, uintptr(len(list)), address)
}

// dieWithUs has the kernel kill the process when the thread that cloned it
// ends, and ends it if this program has died before: on a busy host a child
// first runs long after its clone. It must follow initFiles and every change of
// identity, which clears the signal. What is still missed, between the death of
// the thread and that of the whole program, the handshakes catch.
func (s script) dieWithUs() {
	s.prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL))
	self, mem := s.Bytes(8)
	binary.LittleEndian.PutUint32(mem, selfFd)
	binary.LittleEndian.PutUint16(mem[4:], unix.POLLIN)
	atOnce, _ := s.Bytes(16)
	ended := s.Call(unix.SYS_PPOLL, self, 1, atOnce, 0)
	// One program that has ended is a result of 1, which is no flag of this
	// call: it then fails, and the script with it.
	const none = 0xffffffff
	ended.Into(s.Call(unix.SYS_CLOSE_RANGE, none, none, 0), 2)
}

// rlimits are set on every process of a cell.
func (s script) rlimits(processes int64) {
	if !s.part(partRlimits) {
		return
	}
	limits := []struct {
		resource int
		value    uint64
	}{
		{unix.RLIMIT_CORE, coredump.Limit}, // nobody in the cell can lower it: the filter sees to that
		{unix.RLIMIT_MEMLOCK, 8 << 20},
		{unix.RLIMIT_MSGQUEUE, 819200},
		{unix.RLIMIT_SIGPENDING, 4096},
	}
	if processes > 0 {
		// Counted in the cell's own user namespace, so it bounds the cell even
		// where there is no cgroup to do it.
		limits = append(limits, struct {
			resource int
			value    uint64
		}{unix.RLIMIT_NPROC, uint64(processes)})
	}
	for _, l := range limits {
		address, mem := s.Bytes(16)
		binary.LittleEndian.PutUint64(mem, l.value)
		binary.LittleEndian.PutUint64(mem[8:], l.value)
		// A caller whose own hard limit is lower keeps that one.
		s.Call(unix.SYS_PRLIMIT64, 0, uintptr(l.resource), address, 0).MayFail()
	}
}

// Landlock rights. A ruleset handles these and allows, below /, all but the
// making of device nodes. What it adds besides: a process in it can change no
// mounts and trace nobody outside, whatever else fails.
const (
	landlockMakeChar = unix.LANDLOCK_ACCESS_FS_MAKE_CHAR
	landlockMakeBlk  = unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK
	landlockHandled  = landlockMakeChar | landlockMakeBlk | unix.LANDLOCK_ACCESS_FS_REFER
	landlockGiven    = unix.LANDLOCK_ACCESS_FS_REFER
	landlockLeastABI = 2 // ABI 1 cannot allow renames between directories

	landlockScopeABI = 6
)

// landlockIn is the version of landlock for a cell's commands, or 0. In a cell of the
// host's root, processes see those that they may trace (see procOf), and commands
// in landlock domains of their own could not see each other. On the host's network
// it is more important that they cannot reach its abstract sockets.
func (h *Host) landlockIn(config Config) int {
	if h.Identity.isRoot() && !config.HostNetwork {
		return 0
	}
	return h.landlock
}

// landlock appends the ruleset. Descriptors from first on must be closed: the
// ruleset becomes first and the root directory the next. With scope, abstract
// unix sockets of processes outside cannot be reached, which matters on the
// host's network.
func (s script) landlock(abi int, scope bool, first uintptr) {
	if abi < landlockLeastABI || !s.part(partLandlock) {
		return
	}
	const attrSize = 24 // handled_access_fs, handled_access_net, scoped
	attr, mem := s.Bytes(attrSize)
	binary.LittleEndian.PutUint64(mem, landlockHandled)
	size := uintptr(8)
	if scope && abi >= landlockScopeABI {
		size = attrSize
		binary.LittleEndian.PutUint64(mem[16:], unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET)
	}
	rule, mem := s.Bytes(16)
	binary.LittleEndian.PutUint64(mem, landlockGiven)
	binary.LittleEndian.PutUint32(mem[8:], uint32(first+1))
	s.Call(unix.SYS_LANDLOCK_CREATE_RULESET, attr, size, 0)
	s.Call(unix.SYS_OPENAT, here, s.String("/"), unix.O_PATH|unix.O_CLOEXEC, 0)
	s.Call(unix.SYS_LANDLOCK_ADD_RULE, first, unix.LANDLOCK_RULE_PATH_BENEATH, rule, 0)
	s.Call(unix.SYS_LANDLOCK_RESTRICT_SELF, first, 0)
	s.closeFrom(first)
}

// filter appends the system call filter. Only the calls that it allows may
// follow.
func (s script) filter() error { return s.filterWith(0) }

func (s script) filterWith(flags uintptr) error {
	if !s.part(partFilter) {
		return nil
	}
	program, err := seccomp.Filter()
	if err != nil {
		return err
	}
	const instruction = 8
	code, mem := s.Bytes(instruction * len(program))
	copy(mem, unsafe.Slice((*byte)(unsafe.Pointer(&program[0])), instruction*len(program)))
	head, h := s.Bytes(16)
	binary.LittleEndian.PutUint16(h, uint16(min(len(program), math.MaxUint16)))
	binary.LittleEndian.PutUint64(h[8:], uint64(code))
	s.Call(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags, head)
	return nil
}
