package confine

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"aether/internal/host/cgroup"
	"aether/internal/host/spawn"

	"golang.org/x/sys/unix"
)

const ownNamespaces = unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS

// handshake is how long PID 1 waits to hear that this program has seen it armed
// with its parent-death signal. Before that it could outlive us.
const handshake = 10 * time.Second

// WarmCell is a cell that lacks only its name. Warm cells are made ahead, because all
// that takes longer, the net namespace above all, than what follows. Each becomes
// one cell at most.
type WarmCell struct{ cell *Cell }

// NewWarmCell makes a warm cell, from all of a Config but what Boot is told. It returns
// when PID 1 has become the program that only reaps: before that nobody may be
// beside it, for it shares this program's memory, and its group may have no
// memory limit, for the out-of-memory killer would take this program for a part
// of it.
func (b *Base) NewWarmCell(config Config) (*WarmCell, error) {
	c, err := b.newCell(config)
	if err != nil {
		return nil, err
	}
	if err := c.make(); err != nil {
		return nil, errors.Join(err, c.free())
	}
	warm := &WarmCell{c}
	crowded := false
	gone := c.init.Fd(func(pidfd int) { crowded = spawn.Crowded(pidfd) })
	if gone == nil && crowded {
		return nil, errors.Join(fmt.Errorf("confine: make a warm cell: %w", unix.EMFILE), warm.Discard())
	}
	return warm, nil
}

// init is the way into the group of PID 1.
func (c Config) init() cgroup.Way {
	if c.Init == (cgroup.Way{}) {
		return c.Group
	}
	return c.Init
}

// newCell is a cell that has its ids, and nothing else yet.
func (b *Base) newCell(config Config) (c *Cell, err error) {
	c = &Cell{host: b.host, base: b, config: config, identity: b.host.Identity}
	if !c.identity.Single {
		c.identity, err = b.host.claimIDs()
	}
	return c, err
}

// make makes the cell. It leaves nothing behind if it fails.
func (c *Cell) make() error {
	mounts, err := checkMounts(c.config)
	if err != nil {
		return err
	}
	s, err := c.host.script(0)
	if err != nil {
		return err
	}
	if err = c.start(s, mounts); err != nil {
		err = fmt.Errorf("confine: make a warm cell: %w", s.blame(err))
	}
	return errors.Join(err, s.Free())
}

// Ready has a process stand by for the first command, of the user who ran the
// last one in a cell of this image.
func (b *WarmCell) Ready() error {
	who := credentials{uid: UserID, gid: UserID}
	if last := b.cell.base.last.Load(); last != nil {
		who = *last
	}
	return b.cell.ready(who)
}

// Discard ends a warm cell that becomes no cell.
func (b *WarmCell) Discard() error {
	err := b.cell.Kill()
	_, waited := b.cell.Wait()
	return errors.Join(err, waited)
}

// start clones PID 1 and waits until it runs its program. It leaves no process
// behind if it fails.
func (c *Cell) start(s script, mounts []openMount) (err error) {
	group, err := c.config.init().Open(firstFd)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, group.Close()) }()
	ours, theirs, err := SocketPair()
	if err != nil {
		return err
	}
	defer theirs.Close()
	if ours, err = high(ours); err != nil {
		return err
	}
	defer ours.Close()
	words := s.boot(c, mounts, group, ours, theirs)
	if err := s.Err(); err != nil {
		return err
	}
	flags := uint64(ownNamespaces)
	if !c.config.HostNetwork && !c.leased() {
		flags |= unix.CLONE_NEWNET
	}
	if c.host.Identity.Single {
		spawn.Visibility.Lock()
		defer spawn.Visibility.Unlock()
	}
	started, files, err := c.clone(s, flags, group.Into)
	if err != nil {
		return err
	}
	if files >= 0 {
		defer unix.Close(files)
	}
	c.init = started.Process()
	if err := c.arm(started, words, shown{mounts, files, ours}); err != nil {
		c.init.Signal(syscall.SIGKILL)
		_, reaped := c.init.Wait()
		return errors.Join(err, reaped)
	}
	return nil
}

// words are what PID 1 waits for, one after another.
type words struct{ mapped, seen spawn.Word }

// arm sees PID 1 through to its program.
func (c *Cell) arm(started spawn.Started, w words, what shown) error {
	if !c.identity.Single {
		if err := c.identity.writeMaps("/proc", started.Pid()); err != nil {
			return err
		}
		if err := c.show(what); err != nil {
			return err
		}
		w.mapped.Set()
	}
	if err := started.Announced(); err != nil {
		return err
	}
	w.seen.Set()
	if err := started.Left(); err != nil || !c.host.Identity.Single {
		return err
	}
	return awaitJoinable(started.Pid())
}

// awaitJoinable waits until an ordinary user may join the namespaces of PID 1. The
// kernel says that it has left this program's memory a moment before it gets its
// own, and until then it is as closed to us as this program is to others.
func awaitJoinable(pid int) error {
	const look = 50 * time.Microsecond
	for end := time.Now().Add(handshake); ; time.Sleep(look) {
		// What this link asks for is what joining does.
		_, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/user", pid))
		if !errors.Is(err, unix.EACCES) || time.Now().After(end) {
			return err
		}
	}
}

// boot appends everything that PID 1 does.
func (s script) boot(c *Cell, mounts []openMount, group cgroup.Attach, ours, theirs *os.File) words {
	h := c.host
	w := words{s.Word(), s.Word()}
	s.join(group)
	s.initFiles(h)
	s.keepSockets(ours, theirs, c.leased())
	if !c.config.HostNetwork && !c.leased() {
		s.part(partNetwork)
		s.LoopbackUp() // while the maps are being written
	}
	if h.Identity.Single {
		s.mapSelf(h.Identity)
		s.dieWithUs()
		s.openMounts(mounts)
		s.stage(h.dir, c.base.tree, false)
	} else {
		s.becomeMapped(w.mapped)
		s.dieWithUs()
		s.receiveShown(c.base.tree, mounts)
	}
	s.root(c, mounts)
	s.attachMounts(mounts)
	s.part(partPark)
	s.Announce(0)
	s.Wait(w.seen, handshake)
	s.part(partInit)
	if name := c.config.Hostname; name != "" {
		s.Call(unix.SYS_SETHOSTNAME, s.String(name), uintptr(len(name)))
	}
	s.becomeInit(c)
	return w
}

// mapSelf appends the mapping of the one id that an ordinary user may map.
func (s script) mapSelf(id Identity) {
	s.part(partIdentity)
	s.prctl(unix.PR_SET_DUMPABLE, 1) // or the files belong to root
	s.writeFile("/proc/self/setgroups", "deny")
	s.writeFile("/proc/self/uid_map", id.mapLine(id.uid))
	s.writeFile("/proc/self/gid_map", id.mapLine(id.gid))
}

// becomeMapped appends the wait for the maps that the parent writes, and the
// change to the cell's root, in whose name its file system is made.
func (s script) becomeMapped(mapped spawn.Word) {
	s.part(partIdentity)
	s.Wait(mapped, handshake)
	s.Call(unix.SYS_SETRESGID, 0, 0, 0)
	s.Call(unix.SYS_SETRESUID, 0, 0, 0)
	s.groups(nil)
}

// join moves the process into its cgroups before it is anything else.
func (s script) join(group cgroup.Attach) {
	s.part(partGroups)
	for _, fd := range group.Files {
		s.Call(unix.SYS_WRITE, uintptr(fd), s.String("0"), 1)
	}
}
