package confine

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"aether/host/cgroup"
	"aether/host/spawn"

	"golang.org/x/sys/unix"
)

const ownNamespaces = unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS

// handshake is how long a blank waits to hear that this program has seen it
// armed with its parent-death signal. Before that it could outlive us.
const handshake = 10 * time.Second

// Blank is PID 1 of a cell to be: it stands in namespaces and on a root of its
// own and waits to be wanted. Blanks are made ahead, because all that takes
// longer, the net namespace above all, than what follows. Each becomes one cell
// at most.
//
// A blank is in its group from the start. The group must get its limits only
// when the blank has become a cell; see Cell.
type Blank struct {
	base    *Base
	config  Config
	mounts  []openMount
	script  script
	claimed spawn.Word
	started spawn.Started
	init    *spawn.Process
}

// Blank makes a blank, from all of a Config but what Boot is told.
func (b *Base) Blank(config Config) (*Blank, error) {
	mounts, err := openMounts(b.host, config)
	defer closeMounts(mounts)
	if err != nil {
		return nil, err
	}
	s, err := b.host.script(0)
	if err != nil {
		return nil, err
	}
	blank := &Blank{base: b, config: config, mounts: mounts, script: s}
	if err := blank.start(); err != nil {
		return nil, errors.Join(fmt.Errorf("confine: make a blank: %w", s.blame(err)), s.Free())
	}
	return blank, nil
}

// Discard ends a blank that becomes no cell.
func (b *Blank) Discard() error {
	if err := b.init.Signal(syscall.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
		return err
	}
	_, err := b.init.Wait()
	return errors.Join(err, b.script.Free())
}

// start clones PID 1 and waits until it is parked and armed. It leaves no
// process behind if it fails.
func (b *Blank) start() error {
	h := b.base.host
	words := b.build()
	flags := uint64(ownNamespaces)
	if !b.config.HostNetwork {
		flags |= unix.CLONE_NEWNET
	}
	if h.Identity.Single {
		h.one.Lock()
		defer h.one.Unlock()
	}
	err := h.on(func(t *spawner) (err error) {
		if err := t.stand(b.base); err != nil {
			return err
		}
		b.started, err = b.script.Start(flags, b.config.Group.Into)
		return err
	})
	if err != nil {
		return err
	}
	b.init = b.started.Process()
	if err := b.park(words); err != nil {
		b.init.Signal(syscall.SIGKILL)
		_, reaped := b.init.Wait()
		return errors.Join(err, reaped)
	}
	return nil
}

// words are what a parked blank waits for, one after another.
type words struct{ mapped, seen spawn.Word }

func (b *Blank) park(w words) error {
	id := b.base.host.Identity
	if !id.Single {
		if err := id.writeMaps("/proc", b.started.Pid()); err != nil {
			return err
		}
		w.mapped.Set()
	}
	if err := b.started.Announced(); err != nil {
		return err
	}
	w.seen.Set()
	return nil
}

// build writes the script up to where the cell's particulars must be known.
func (b *Blank) build() words {
	s, h := b.script, b.base.host
	w := words{s.Word(), s.Word()}
	b.claimed = s.Word()
	s.join(b.config.Group)
	s.initFiles(h)
	s.keepMounts(b.mounts)
	if h.Identity.Single {
		s.mapSelf(h.Identity)
		s.dieWithUs()
		s.openMounts(b.mounts)
		s.stage(h.dir, b.base.tree, -1)
	} else {
		s.becomeMapped(w.mapped)
		s.dieWithUs()
	}
	if !b.config.HostNetwork {
		s.loopbackUp()
	}
	s.root(b.base.tree, h.masks, b.mounts, b.config.Upper)
	s.attachMounts(b.mounts)
	s.part(partPark)
	s.Announce(spareFd)
	s.Wait(w.seen, handshake)
	s.Wait(b.claimed, 0)
	return w
}

// stand puts the thread on the base's stage, for its next child to inherit.
func (t *spawner) stand(b *Base) error {
	if t.base == b || b.mount == nil {
		return nil
	}
	if err := unix.Setns(int(b.mount.Fd()), unix.CLONE_NEWNS); err != nil {
		return os.NewSyscallError("setns", err)
	}
	t.base = b
	return nil
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

func (s script) loopbackUp() {
	s.part(partNetwork)
	const interfaceSize = 40
	request, mem := s.Bytes(interfaceSize)
	copy(mem, "lo")
	binary.LittleEndian.PutUint16(mem[16:], unix.IFF_UP)
	socket := s.Call(unix.SYS_SOCKET, unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	socket.Into(s.Call(unix.SYS_IOCTL, 0, unix.SIOCSIFFLAGS, request), 0)
}
