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
	// Foreground is the process group that the terminal listens to, or 0.
	Foreground int
	// Group is where the process is accounted; its files stay open.
	Group cgroup.Attach
	// Children are for those of the process, in the order of its twin's.
	Children []Rebirth
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
// rules and limits of a command that is started there. It waits for Proceed.
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
	b := newBirth(script{t.script.Script, &plan{without: t.host.without}}, t, t, c, r)
	ready := t.script.Word()
	if err := b.write(ready); err != nil {
		return nil, err
	}
	if err := b.sendAll(); err != nil {
		return nil, err
	}
	err = t.run()
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
		err = t.script.AwaitFrom(ready, p)
	}
	if err != nil {
		return nil, errors.Join(err, bury(p))
	}
	t.born, t.child = b, p
	return p, nil
}

// Proceed has every process that was spawned since go on where its like was. None
// of them runs while another is still being made: until then that one could be
// stopped, and shares memory with its twin.
func (im *Imprint) Proceed() error {
	err := im.tracer.Do(im.proceed)
	if err != nil {
		return fmt.Errorf("confine: fork: %w", err)
	}
	return nil
}

func (im *Imprint) proceed() (err error) {
	var all []*twin.Paused
	for _, t := range im.Twins {
		if t.born != nil && err == nil {
			err = t.born.prepare(t.child.Pid(), &all)
		}
		t.born, t.child = nil, nil
	}
	errs := []error{err}
	for _, child := range all {
		if err != nil {
			errs = append(errs, unix.Kill(child.PID, unix.SIGKILL))
		}
		errs = append(errs, child.Release())
	}
	return errors.Join(errs...)
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

// birth writes the script of one process.
type birth struct {
	script
	root  *Twin // whose script it is, and whose memory the process is born with
	twin  *Twin
	cell  *Cell
	maker spawn.Step
	files []int // what the process is sent
	below []*birth
	check func() error // to be made when it is ready
	Rebirth
}

func newBirth(s script, root, t *Twin, c *Cell, r Rebirth) *birth {
	b := &birth{script: s, root: root, twin: t, cell: c, Rebirth: r, check: func() error { return nil }}
	for i, child := range t.Children {
		b.below = append(b.below, newBirth(s, root, child, c, r.Children[i]))
	}
	return b
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
	b.root.script.Return()
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
	b.terminal()
	if err := b.family(func() error { return nil }, ready); err != nil {
		return err
	}
	return b.Err()
}

// family appends the making of the process's children, each of which is ready
// before the next, then own and what the process itself still has to do, and then
// the children's own steps.
func (b *birth) family(own func() error, ready spawn.Word) error {
	clones := make([]spawn.Step, len(b.below))
	words := make([]spawn.Word, len(b.below))
	for i, child := range b.below {
		clones[i] = b.Clone(spawn.Clone{Tids: []int{child.twin.state.Tid()}, Cgroup: -1, Ended: syscall.SIGCHLD})
		words[i] = b.Word()
		b.WaitAny(words[i])
	}
	if err := errors.Join(own(), b.settle(ready)); err != nil {
		return err
	}
	for i, child := range b.below {
		b.Land(clones[i])
		if err := child.member(words[i]); err != nil {
			return err
		}
	}
	return nil
}

// member appends the steps of a process that has a parent in the cell. It begins
// as a copy of its parent that has nothing of its own yet.
func (b *birth) member(ready spawn.Word) error {
	if err := b.gather(); err != nil {
		return err
	}
	b.group()
	return b.family(func() (err error) {
		b.receive(1)
		if b.check, err = b.twin.state.BecomeInside(b.root.script, b.root.state); err != nil {
			return err
		}
		b.closeFrom(3)
		b.chdir(b.Dir)
		b.twin.state.Process(b.Script)
		return nil
	}, ready)
}

// group appends the change to the session and process group that it is in.
func (b *birth) group() {
	place := b.twin.Place
	switch {
	case place.Session == b.twin.of:
		b.Call(unix.SYS_SETSID)
	case place.Group == b.twin.of:
		b.Call(unix.SYS_SETPGID, 0, 0)
	case place.Group != b.twin.Parent.Place.Group:
		b.Call(unix.SYS_SETPGID, 0, uintptr(b.root.Inside(place.Group)))
	}
}

// Inside is the number inside of a process of the tree below the twin, or 0.
func (t *Twin) Inside(pid int) int {
	if t.of == pid {
		return t.state.Tid()
	}
	for _, child := range t.Children {
		if number := child.Inside(pid); number > 0 {
			return number
		}
	}
	return 0
}

// settle appends what every process does last.
func (b *birth) settle(ready spawn.Word) error {
	b.part(partFiles)
	b.receive(len(b.files))
	b.descriptors()
	b.part(partBorn)
	b.twin.state.Threads(b.Script, b.dropLast)
	b.twin.state.Timers(b.Script)
	b.twin.state.Limits(b.Script) // last: it may have more already than it could take now
	b.dropLast()
	b.prctl(unix.PR_SET_DUMPABLE, b.twin.state.Dumpable())
	if err := b.filterWith(unix.SECCOMP_FILTER_FLAG_TSYNC | unix.SECCOMP_FILTER_FLAG_TSYNC_ESRCH); err != nil {
		return err
	}
	b.Signal(ready)
	b.Park()
	return nil
}

// prepare makes the process, which is ready, and all below it what they are to
// go on as. It must be called on the tracer.
func (b *birth) prepare(pid int, all *[]*twin.Paused) error {
	children, err := twin.Children(pid)
	if err != nil {
		return err
	}
	if len(children) != len(b.below) {
		return fmt.Errorf("process %d has %d children, not %d", pid, len(children), len(b.below))
	}
	// They were made one after another, and are listed so.
	for i, child := range b.below {
		if err := child.prepare(children[i], all); err != nil {
			return err
		}
	}
	if err := b.check(); err != nil {
		return err
	}
	child, err := b.twin.state.Prepare(pid, b.root.script)
	*all = append(*all, child)
	return err
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
		err = b.root.send(first)
	})
	return errors.Join(gone, err, b.sendFamily())
}

// sendFamily sends in the order in which processes receive: children first.
func (b *birth) sendFamily() error {
	if terminal := b.early(); terminal != nil {
		if err := b.root.sendFile(terminal); err != nil {
			return err
		}
	}
	for _, child := range b.below {
		if err := child.sendMember(); err != nil {
			return err
		}
	}
	return b.root.send(b.files)
}

func (b *birth) sendMember() error {
	for _, child := range b.below {
		if err := child.sendMember(); err != nil {
			return err
		}
	}
	if err := b.root.sendFile(b.twin.saved); err != nil {
		return err
	}
	return b.root.send(b.files)
}

func (t *Twin) sendFile(f *os.File) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	controlled := raw.Control(func(fd uintptr) { err = t.send([]int{int(fd)}) })
	return errors.Join(controlled, err)
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
	if b.Terminal >= 0 && b.twin.Place.Session == b.twin.of {
		b.Call(unix.SYS_IOCTL, uintptr(b.Terminal), unix.TIOCSCTTY, 0)
		b.foreground()
	}
}

// foreground appends the choice of the process group that the terminal listens
// to. All of them are there by now.
func (b *birth) foreground() {
	if b.Foreground == 0 {
		return
	}
	number, mem := b.Bytes(8)
	binary.NativeEndian.PutUint32(mem, uint32(b.Foreground))
	b.Call(unix.SYS_IOCTL, uintptr(b.Terminal), unix.TIOCSPGRP, number)
}

// terminal appends the taking of the controlling terminal by the first process:
// before it has children, for these inherit it.
func (b *birth) terminal() {
	if b.early() == nil {
		return
	}
	b.receive(1)
	b.Call(unix.SYS_IOCTL, 3, unix.TIOCSCTTY, 0)
	b.closeFrom(3)
}

// early is the terminal, if it is needed early.
func (b *birth) early() *os.File {
	if len(b.below) == 0 {
		return nil
	}
	for _, d := range b.Descriptors {
		if d.Number == b.Terminal {
			return d.File
		}
	}
	return nil
}
