package checkpoint

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"syscall"
	"unsafe"

	"aether/internal/host/confine"
	"aether/internal/host/inroot"
	"aether/sandbox"

	"golang.org/x/sys/unix"
)

// maxDescriptors bounds those of one process.
const maxDescriptors = 4096

// Descriptors reads those of the process, in the order of their numbers, and
// keeps what they stand for.
func (p *Tracee) Descriptors(k *SharedObjects) ([]Descriptor, error) {
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", p.PID))
	if err != nil {
		return nil, err
	}
	if len(entries) > maxDescriptors {
		return nil, p.refuse(false, "has %d descriptors open", len(entries))
	}
	var list []Descriptor
	for _, entry := range entries {
		number, err := strconv.Atoi(entry.Name())
		if err != nil {
			return nil, err
		}
		d, err := p.descriptor(number)
		if err == nil {
			err = k.identify(p.PID, &d)
		}
		if err == nil {
			err = p.readObject(k, &d)
		}
		if err != nil {
			return nil, err
		}
		list = append(list, d)
	}
	slices.SortFunc(list, func(a, b Descriptor) int { return a.Number - b.Number })
	return list, nil
}

func (p *Tracee) descriptor(number int) (Descriptor, error) {
	target, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", p.PID, number))
	if err != nil {
		return Descriptor{}, err
	}
	info, err := readProc(fmt.Sprintf("/proc/%d/fdinfo/%d", p.PID, number))
	if err != nil {
		return Descriptor{}, err
	}
	return parseDescriptor(number, target, string(info))
}

// get gives the open file itself.
func (p *Tracee) get(number int) (*os.File, error) {
	fd, err := p.borrow(number)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), "descriptor"), nil
}

// borrow gives the open file itself, to look at: it is the process's, too. So it
// is no os.File, which could change how it waits.
func (p *Tracee) borrow(number int) (fd int, err error) {
	if p.pidfd == nil {
		pidfd, err := unix.PidfdOpen(p.PID, 0)
		if err != nil {
			return -1, os.NewSyscallError("pidfd_open", err)
		}
		p.pidfd = os.NewFile(uintptr(pidfd), "pidfd")
	}
	if fd, err = unix.PidfdGetfd(int(p.pidfd.Fd()), number, 0); err != nil {
		return -1, os.NewSyscallError("pidfd_getfd", err)
	}
	return fd, nil
}

// readObject keeps what is in a descriptor's object, for the copies that will be made.
func (p *Tracee) readObject(k *SharedObjects, d *Descriptor) (err error) {
	for _, l := range d.Locks {
		if !slices.Contains([]string{lockFile, lockOpen, lockProcess}, l.Owner) {
			return p.refuse(false, "holds a lease by descriptor %d (%s)", d.Number, l.Owner)
		}
	}
	if d.Flags&unix.O_ASYNC != 0 {
		return p.refuse(false, "has signals sent for descriptor %d (O_ASYNC)", d.Number)
	}
	switch d.Kind {
	case File:
		err = p.readFile(d)
	case Pipe:
		err = p.readPipe(d)
	case Event:
		err = p.readEvent(d)
	case Poll:
		err = k.claim(p, d)
	case Socket:
		err = p.readSocket(k, d)
	case Deleted:
		err = p.readRemoved(k, d)
	case Memory:
		d.Content, err = k.content(p, p.link(d.Number), d.Target)
	}
	var refused *sandbox.Error
	if err != nil && !errors.As(err, &refused) {
		err = fmt.Errorf("checkpoint: descriptor %d of process %d, a %s: %w", d.Number, p.NSPid, d.Kind, err)
	}
	return err
}

func (p *Tracee) link(number int) string { return fmt.Sprintf("/proc/%d/fd/%d", p.PID, number) }

// messageQueues is the file system of mq_open.
const messageQueues = 0x19800202 // MQUEUE_MAGIC

// kernelFiles are file systems whose files show what their opener may see.
var kernelFiles = []int64{unix.PROC_SUPER_MAGIC, unix.SYSFS_MAGIC, unix.CGROUP_SUPER_MAGIC, unix.CGROUP2_SUPER_MAGIC,
	unix.DEBUGFS_MAGIC, unix.TRACEFS_MAGIC, unix.SECURITYFS_MAGIC, unix.BPF_FS_MAGIC}

// readFile tells what this program may open in a process's stead from what it
// must not: its own rights would stay with the open file.
func (p *Tracee) readFile(d *Descriptor) error {
	var stat unix.Stat_t
	if err := unix.Stat(p.link(d.Number), &stat); err != nil {
		return os.NewSyscallError("stat", err)
	}
	var fs unix.Statfs_t
	if err := unix.Statfs(p.link(d.Number), &fs); err != nil {
		return os.NewSyscallError("statfs", err)
	}
	switch kind := stat.Mode & unix.S_IFMT; {
	case fs.Type == messageQueues:
		return p.refuse(false, "has descriptor %d open on a message queue (mq_open)", d.Number)
	case fs.Type == unix.PROC_SUPER_MAGIC && aboutProcess(d.Target):
		return p.refuse(false, "has descriptor %d open on %s, which tells of a process", d.Number, d.Target)
	case kind == unix.S_IFIFO:
		return p.refuse(false, "has descriptor %d open on a named pipe, %s", d.Number, d.Target)
	case kind != unix.S_IFREG && kind != unix.S_IFDIR && kind != unix.S_IFLNK && d.Flags&unix.O_PATH == 0,
		slices.Contains(kernelFiles, fs.Type):
		d.Kind = Virtual
	}
	return nil
}

// readRemoved keeps a file that was removed, unless it only has a name like one.
func (p *Tracee) readRemoved(k *SharedObjects, d *Descriptor) (err error) {
	if p.isAt(d.Target, p.link(d.Number)) {
		d.Kind = File
		return p.readFile(d)
	}
	d.Content, err = k.content(p, p.link(d.Number), d.Target)
	return err
}

// isAt says whether a path of the process leads to what a link of /proc does.
func (p *Tracee) isAt(path, link string) bool {
	var there unix.Stat_t
	if unix.Stat(link, &there) != nil {
		return false
	}
	root, err := inroot.Open(fmt.Sprintf("/proc/%d/root", p.PID))
	if err != nil {
		return false
	}
	defer root.Close()
	entry, err := root.Entry(path)
	if err != nil {
		return false
	}
	defer entry.Close()
	var found unix.Stat_t
	return unix.Fstat(int(entry.Fd()), &found) == nil && found.Ino == there.Ino && found.Dev == there.Dev
}

// recreate makes an object like the one that a descriptor of an anonymous kind
// stands for, in the state that it was in.
func (d Descriptor) recreate() (*os.File, error) {
	fd, err := -1, error(nil)
	switch d.Kind {
	case Event:
		fd, err = d.recreateEvent()
	case Poll:
		fd, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	case Timer:
		fd, err = d.recreateTimer()
	case Signals:
		mask := unix.Sigset_t{Val: [16]uint64{d.Mask}}
		fd, err = unix.Signalfd(-1, &mask, d.Flags&unix.O_NONBLOCK|unix.SFD_CLOEXEC)
	default:
		return nil, errors.ErrUnsupported
	}
	if err != nil {
		if fd >= 0 {
			unix.Close(fd)
		}
		return nil, fmt.Errorf("checkpoint: make a %s: %w", d.Kind, err)
	}
	return os.NewFile(uintptr(fd), d.Target), nil
}

func (d Descriptor) recreateTimer() (int, error) {
	fd, err := unix.TimerfdCreate(d.Clock, d.Flags&unix.O_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return fd, err
	}
	value := d.Value
	if value == ([2]int64{}) {
		value = d.Interval // it has ended, and goes on when that is read
	}
	if value != ([2]int64{}) {
		// The kernel says how much time is left, whatever way it was set.
		spec := unix.ItimerSpec{Value: unix.Timespec{Sec: value[0], Nsec: value[1]},
			Interval: unix.Timespec{Sec: d.Interval[0], Nsec: d.Interval[1]}}
		err = unix.TimerfdSettime(fd, 0, &spec, nil)
	}
	if err == nil && d.Ticks > 0 {
		const setTicks = 0x40085400 // TFD_IOC_SET_TICKS
		_, _, errno := syscall.Syscall(unix.SYS_IOCTL, uintptr(fd), setTicks, uintptr(unsafe.Pointer(&d.Ticks)))
		if errno != 0 {
			err = errno
		}
	}
	return fd, err
}

// setNonblock gives a file that was opened for a descriptor its way of waiting,
// which Go changes when it opens files.
func (d Descriptor) setNonblock(f *os.File) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	controlled := raw.Control(func(fd uintptr) { err = unix.SetNonblock(int(fd), d.Flags&unix.O_NONBLOCK != 0) })
	return errors.Join(controlled, err)
}

// Place is where a process is and who it is.
type Place struct {
	Dir, Root, Program string
	// UID, GID and Groups are ids of the cell.
	UID, GID uint32
	Groups   []uint32
	// Group and Session are numbers of the host, Terminal that of a device.
	Group, Session, Terminal int
}

// Place reads it, of a process of a cell with these ids.
func (p *Tracee) Place(ids confine.Identity) (place Place, err error) {
	for name, to := range map[string]*string{"cwd": &place.Dir, "root": &place.Root, "exe": &place.Program} {
		if *to, err = os.Readlink(fmt.Sprintf("/proc/%d/%s", p.PID, name)); err != nil {
			return place, err
		}
	}
	uids, err := p.status.ids("Uid")
	if err != nil {
		return place, err
	}
	gids, err := p.status.ids("Gid")
	if err != nil {
		return place, err
	}
	// The real, effective and saved ones, and that for files.
	if len(slices.Compact(uids)) != 1 || len(slices.Compact(gids)) != 1 {
		return place, p.refuse(false, "has several user or group ids at once")
	}
	place.UID, place.GID = ids.FromHost(uids[0], gids[0])
	if place.Groups, err = p.status.ids("Groups"); err != nil {
		return place, err
	}
	for i, group := range place.Groups {
		_, place.Groups[i] = ids.FromHost(0, group)
	}
	stat, err := readProc(fmt.Sprintf("/proc/%d/stat", p.PID))
	if err == nil {
		place.Group, place.Session, place.Terminal, err = parseGroups(string(stat))
	}
	return place, err
}

// reopen opens what a file of this program's stands for once more, with flags of
// its own.
func reopen(f *os.File, flags int) (again *os.File, err error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return nil, err
	}
	controlled := raw.Control(func(number uintptr) {
		const kept = unix.O_ACCMODE | unix.O_APPEND | unix.O_NONBLOCK
		var fd int
		fd, err = unix.Open(fmt.Sprintf("/proc/self/fd/%d", number), flags&kept|unix.O_CLOEXEC|unix.O_NOCTTY, 0)
		if err == nil {
			again = os.NewFile(uintptr(fd), f.Name())
		}
	})
	return again, errors.Join(controlled, os.NewSyscallError("open", err))
}

// checkPlain refuses a file that this program has opened in a process's stead and
// that shows more to this program than it would to the process: what Descriptors
// calls Virtual.
func checkPlain(f *os.File) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var fs unix.Statfs_t
	controlled := raw.Control(func(fd uintptr) { err = unix.Fstatfs(int(fd), &fs) })
	if err = errors.Join(controlled, err); err == nil && (slices.Contains(kernelFiles, fs.Type) || fs.Type == messageQueues) {
		err = errors.ErrUnsupported
	}
	return err
}
