package confine

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"syscall"

	"aether/host/cgroup"
	"aether/host/spawn"
	"aether/host/twin"

	"golang.org/x/sys/unix"
)

// Rebirth is what a child of a twin is given in its new cell.
type Rebirth struct {
	// Descriptors are all that it has. Those that stand for one open file have
	// the same File.
	Descriptors []Descriptor
	// Polls are the epoll sets among them.
	Polls []Poll
	// Mappings are the memory that it shares with others.
	Mappings []Mapping
	// Program is what /proc/self/exe is to show, or nil.
	Program *os.File
	Dir     string
	// UID, GID and Groups are ids of the cell.
	UID, GID uint32
	Groups   []uint32
	// Terminal is the descriptor of its controlling terminal, or -1.
	Terminal int
	// Group is where the process is accounted; its files stay open.
	Group cgroup.Attach
}

// Descriptor is a file under a number.
type Descriptor struct {
	Number      int
	File        *os.File
	CloseOnExec bool
	Locks       []twin.Lock // that the process takes by itself
}

// Mapping is a file that a process has in its memory, shared.
type Mapping struct {
	File                *os.File
	Start, Size, Offset uint64
	Protection          uintptr
	Advice              []int // for madvise, each one
}

// Poll is what an epoll descriptor watches.
type Poll struct {
	Number  int
	Watches []Watch
}

// Watch is one descriptor in an epoll set.
type Watch struct {
	Number int
	Events uint32
	Data   uint64
}

const maxDescriptors = 1 << 16

// Spawn makes a child of the twin in another cell: it has all the namespaces,
// rules and limits of a command that is started there, and goes on where the
// process was.
func (t *Twin) Spawn(c *Cell, r Rebirth) (*spawn.Process, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.broken {
		return nil, errors.New("confine: the twin has ended")
	}
	p, err := t.spawn(c, r)
	if err != nil {
		// Descriptors that were not taken would be taken for the next one's.
		t.broken = true
		return nil, fmt.Errorf("confine: fork: %w", err)
	}
	return p, nil
}

func (t *Twin) spawn(c *Cell, r Rebirth) (p *spawn.Process, err error) {
	t.script.Rewind()
	b := birth{script: script{t.script.Script, &plan{without: t.host.without}}, twin: t, cell: c, Rebirth: r}
	ready := t.script.Word()
	if err := b.write(ready); err != nil {
		return nil, err
	}
	if err := b.sendAll(); err != nil {
		return nil, err
	}
	err = t.script.Run()
	if maker := int(b.maker.Result()); maker > 0 {
		err = errors.Join(err, reap(maker))
	}
	pid := t.script.Branched()
	if pid > 0 {
		var adopted error
		if p, adopted = spawn.Adopt(pid); adopted != nil {
			return nil, errors.Join(err, adopted)
		}
	}
	if err == nil {
		err = t.raise(p, ready)
	}
	if err != nil {
		return nil, errors.Join(err, bury(p))
	}
	return p, nil
}

// raise waits until the child has made its steps and has it go on.
func (t *Twin) raise(p *spawn.Process, ready spawn.Word) error {
	if err := t.script.AwaitFrom(ready, p); err != nil {
		return err
	}
	return t.tracer.Do(func() error { return t.state.Continue(p.Pid(), t.script) })
}

func reap(pid int) error {
	p, err := spawn.Adopt(pid)
	if err != nil {
		return err
	}
	_, err = p.Wait()
	return err
}

// bury ends a child that did not come to life.
func bury(p *spawn.Process) error {
	if p == nil {
		return nil
	}
	if err := p.Signal(syscall.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
		return err
	}
	_, err := p.Wait()
	return err
}

// birth writes the script of one child.
type birth struct {
	script
	twin  *Twin
	cell  *Cell
	maker spawn.Step
	files []int // what the child is sent
	Rebirth
}

// write appends everything: the twin branches off a process that shares its
// memory and joins the cell's namespaces; the child of that one has the memory
// for itself, and drops what a command does.
func (b *birth) write(ready spawn.Word) error {
	if err := b.gather(); err != nil {
		return err
	}
	h := b.cell.host
	b.part(partEnter)
	b.maker = b.Clone(spawn.Clone{Flags: unix.CLONE_VM | unix.CLONE_VFORK | unix.CLONE_PARENT, Cgroup: -1})
	b.twin.script.Return()
	b.Land(b.maker)
	b.receive(b.groupCount() + 1)
	const pidfd, groups = 3, 4
	b.Call(unix.SYS_SETNS, pidfd, b.cell.namespace)
	b.emptyBounds()
	b.part(partBorn)
	into := -1
	if b.Group.Into >= 0 {
		into = groups + len(b.Group.Files)
	}
	child := b.Clone(spawn.Clone{Flags: unix.CLONE_PARENT | unix.CLONE_PARENT_SETTID, Tids: []int{b.twin.state.Tid()}, Cgroup: into})
	b.Exit()
	b.Land(child)
	var joined []int
	for i := range b.Group.Files {
		joined = append(joined, groups+i)
	}
	b.join(cgroup.Attach{Files: joined, Into: -1})
	b.closeFrom(3)
	b.part(partSession)
	b.Call(unix.SYS_SETSID)
	b.chdir(b.Dir)
	b.twin.state.Process(b.Script)
	b.rlimits(b.cell.config.Processes)
	who := credentials{uid: b.UID, gid: b.GID, groups: b.Groups, single: h.Identity.Single}
	b.dropButOne(who)
	b.landlock(h.landlock, b.cell.config.HostNetwork, 3)
	b.part(partFiles)
	b.receive(len(b.files))
	b.descriptors()
	b.part(partBorn)
	b.twin.state.Threads(b.Script, b.dropLast)
	b.twin.state.Limits(b.Script) // last: it may have more already than it could take now
	b.dropLast()
	b.prctl(unix.PR_SET_DUMPABLE, 1)
	if err := b.filterWith(unix.SECCOMP_FILTER_FLAG_TSYNC | unix.SECCOMP_FILTER_FLAG_TSYNC_ESRCH); err != nil {
		return err
	}
	b.Signal(ready)
	b.Park()
	return b.Err()
}

// dropButOne is dropTo, but for what it takes to make threads with given
// numbers.
func (b *birth) dropButOne(who credentials) {
	b.part(partCapabilities)
	b.prctl(unix.PR_SET_NO_NEW_PRIVS, 1)
	b.prctl(unix.PR_SET_KEEPCAPS, 1)
	b.become(who)
	b.prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL)
	b.capabilities(1 << unix.CAP_CHECKPOINT_RESTORE)
}

// dropLast takes that away too; every thread does so.
func (b *birth) dropLast() { b.capabilities(0) }

// capabilities sets the effective and permitted ones.
func (b *birth) capabilities(set uint64) {
	header, h := b.Bytes(8)
	binary.LittleEndian.PutUint32(h, unix.LINUX_CAPABILITY_VERSION_3)
	data, mem := b.Bytes(24)
	for half := range 2 {
		word := uint32(set >> (32 * half))
		binary.LittleEndian.PutUint32(mem[12*half:], word)
		binary.LittleEndian.PutUint32(mem[12*half+4:], word)
	}
	b.Call(unix.SYS_CAPSET, header, data)
}

// gather collects the descriptors that the child is sent.
func (b *birth) gather() error {
	if len(b.Descriptors) > maxDescriptors {
		return fmt.Errorf("%d descriptors are more than %d", len(b.Descriptors), maxDescriptors)
	}
	if b.Program != nil {
		if err := b.add(b.Program); err != nil {
			return err
		}
	}
	for _, d := range b.Descriptors {
		if d.Number < 0 || d.Number >= maxDescriptors {
			return fmt.Errorf("descriptor %d is over %d", d.Number, maxDescriptors)
		}
		if err := b.add(d.File); err != nil {
			return err
		}
	}
	for _, m := range b.Mappings {
		if err := b.add(m.File); err != nil {
			return err
		}
	}
	return nil
}

// add avoids File.Fd, which would make the descriptor block.
func (b *birth) add(f *os.File) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	return raw.Control(func(fd uintptr) { b.files = append(b.files, int(fd)) })
}

// groupCount is how many descriptors of groups the maker is sent.
func (b *birth) groupCount() int {
	n := len(b.Group.Files)
	if b.Group.Into >= 0 {
		n++
	}
	return n
}

// sendAll sends what the script receives: to the maker the cell's descriptor and
// the groups, to the child its own.
func (b *birth) sendAll() error {
	var err error
	gone := b.cell.init.Fd(func(pidfd int) {
		first := append([]int{pidfd}, b.Group.Files...)
		if b.Group.Into >= 0 {
			first = append(first, b.Group.Into)
		}
		err = b.twin.send(first)
	})
	return errors.Join(gone, err, b.twin.send(b.files))
}

func (t *Twin) send(files []int) error {
	for len(files) > 0 {
		n := min(len(files), perMessage)
		if err := unix.Sendmsg(int(t.socket.Fd()), []byte{0}, unix.UnixRights(files[:n]...), nil, unix.MSG_DONTWAIT); err != nil {
			return os.NewSyscallError("sendmsg", err)
		}
		files = files[n:]
	}
	return nil
}

// perMessage is how many descriptors the kernel passes at once.
const perMessage = 253

// receive appends the taking of so many descriptors, which get the lowest
// numbers.
func (b *birth) receive(count int) {
	for left := count; left > 0; left -= perMessage {
		n := min(left, perMessage)
		data, _ := b.Bytes(8)
		vector, v := b.Bytes(16)
		binary.NativeEndian.PutUint64(v, uint64(data))
		binary.NativeEndian.PutUint64(v[8:], 1)
		space := unix.CmsgSpace(4 * n)
		control, _ := b.Bytes(space)
		head, h := b.Bytes(56)
		binary.NativeEndian.PutUint64(h[16:], uint64(vector))
		binary.NativeEndian.PutUint64(h[24:], 1)
		binary.NativeEndian.PutUint64(h[32:], uint64(control))
		binary.NativeEndian.PutUint64(h[40:], uint64(space))
		b.Call(unix.SYS_RECVMSG, passFd, head, unix.MSG_CMSG_CLOEXEC|unix.MSG_DONTWAIT)
	}
}

// mappings appends the mapping of files that were received from first on. They
// are closed with what else has no place.
func (b *birth) mappings(first int) {
	for i, m := range b.Mappings {
		b.Call(unix.SYS_MMAP, uintptr(m.Start), uintptr(m.Size), m.Protection, unix.MAP_SHARED|unix.MAP_FIXED_NOREPLACE,
			uintptr(first+i), uintptr(m.Offset))
		for _, advice := range m.Advice {
			b.Call(unix.SYS_MADVISE, uintptr(m.Start), uintptr(m.Size), uintptr(advice)).MayFail()
		}
	}
}

// descriptors appends their moving to their numbers: first out of the way of
// each other, then into place.
func (b *birth) descriptors() {
	received := 3
	if b.Program != nil {
		b.twin.state.Describe(b.Script, received)
		received++
	}
	b.mappings(received + len(b.Descriptors))
	aside := received + len(b.Descriptors) + len(b.Mappings)
	for _, d := range b.Descriptors {
		aside = max(aside, d.Number+1)
	}
	for i := range b.Descriptors {
		b.Call(unix.SYS_DUP3, uintptr(received+i), uintptr(aside+i), unix.O_CLOEXEC)
	}
	b.Call(unix.SYS_CLOSE_RANGE, 0, uintptr(aside-1), 0)
	for i, d := range b.Descriptors {
		var flags uintptr
		if d.CloseOnExec {
			flags = unix.O_CLOEXEC
		}
		b.Call(unix.SYS_DUP3, uintptr(aside+i), uintptr(d.Number), flags)
	}
	b.closeFrom(uintptr(aside))
	for _, d := range b.Descriptors {
		for _, lock := range d.Locks {
			lock.Take(b.Script, d.Number)
		}
	}
	for _, poll := range b.Polls {
		for _, w := range poll.Watches {
			const add = 1 // EPOLL_CTL_ADD
			event, mem := b.Bytes(16)
			binary.NativeEndian.PutUint32(mem, w.Events)
			binary.NativeEndian.PutUint64(mem[4:], w.Data) // the structure is packed
			b.Call(unix.SYS_EPOLL_CTL, uintptr(poll.Number), add, uintptr(w.Number), event)
		}
	}
	if b.Terminal >= 0 {
		b.Call(unix.SYS_IOCTL, uintptr(b.Terminal), unix.TIOCSCTTY, 0)
	}
}
