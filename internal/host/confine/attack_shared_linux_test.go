package confine

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// shared is a file that several cells have, and perhaps the host.
type shared struct {
	Name  string
	Path  string // inside
	Child string // of a directory, what is opened and read in it
	Kind  string // program, directory, device or cover
	Host  string // the path outside, if there is one
}

// channel is a way by which what one process does with a file could be seen by
// another that has the same file.
type channel struct {
	name string
	fits func(kind string) bool
	// signal does it. What it takes is held until the process ends.
	signal func(shared) error
	// watch gets ready to see it, and gives what says whether it was seen.
	watch func(path string) (seen func() bool, err error)
	rules channelRules
}

// channelRules say what a channel means.
type channelRules struct {
	filtered bool // the system call filter refuses what it needs
	hostSees bool // the host may see it, for it may watch its own files
	hostSeen bool // the host may be seen, for it may hold up whoever opens its files
}

func anyKind(string) bool        { return true }
func program(kind string) bool   { return kind == "program" }
func withChild(kind string) bool { return kind == "directory" }

var channels = []channel{
	{"flock", anyKind, locksWhole, byPath(meetsFlock), channelRules{}},
	{"POSIX lock", anyKind, locksByte(unix.F_SETLK), byPath(meetsLock(unix.F_GETLK)), channelRules{}},
	{"OFD lock", anyKind, locksByte(unix.F_OFD_SETLK), byPath(meetsLock(unix.F_OFD_GETLK)), channelRules{}},
	{"lease", program, takesLease, byPath(meetsLease), channelRules{filtered: true, hostSeen: true}},
	{"write hint", program, setsHint, byPath(meetsHint), channelRules{filtered: true}},
	{"inotify", anyKind, uses, watchesInode, channelRules{hostSees: true}},
	{"dnotify", withChild, uses, watchesDirectory, channelRules{filtered: true, hostSees: true}},
	{"execution", program, executes, byPath(meetsExecution), channelRules{}},
}

// byPath is for what can be seen afterwards.
func byPath(see func(path string) bool) func(string) (func() bool, error) {
	return func(path string) (func() bool, error) { return func() bool { return see(path) }, nil }
}

// opened gives a descriptor that stays open.
func opened(path string, flags int) (int, error) {
	return unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC|flags, 0)
}

// withFile runs fn with the file open, and says no if it cannot be opened.
func withFile(path string, fn func(fd int) bool) bool {
	fd, err := opened(path, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	return fn(fd)
}

func locksWhole(s shared) error {
	fd, err := opened(s.Path, 0)
	if err != nil {
		return err
	}
	return unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB)
}

func meetsFlock(path string) bool {
	return withFile(path, func(fd int) bool { return unix.Flock(fd, unix.LOCK_SH|unix.LOCK_NB) == unix.EWOULDBLOCK })
}

func locksByte(command int) func(shared) error {
	return func(s shared) error {
		fd, err := opened(s.Path, 0)
		if err != nil {
			return err
		}
		return unix.FcntlFlock(uintptr(fd), command, &unix.Flock_t{Type: unix.F_RDLCK, Len: 1})
	}
}

func meetsLock(command int) func(string) bool {
	return func(path string) bool {
		return withFile(path, func(fd int) bool {
			lock := unix.Flock_t{Type: unix.F_WRLCK, Len: 1}
			return unix.FcntlFlock(uintptr(fd), command, &lock) == nil && lock.Type != unix.F_UNLCK
		})
	}
}

func takesLease(s shared) error {
	fd, err := opened(s.Path, 0)
	if err != nil {
		return err
	}
	signal.Ignore(unix.SIGIO)
	_, err = unix.FcntlInt(uintptr(fd), unix.F_SETLEASE, unix.F_WRLCK)
	return err
}

// meetsLease opens without waiting. Whoever waits does so for 45 seconds.
func meetsLease(path string) bool {
	fd, err := opened(path, 0)
	if err == nil {
		unix.Close(fd)
	}
	return errors.Is(err, unix.EWOULDBLOCK)
}

const hint = 3 // RWH_WRITE_LIFE_MEDIUM

func setsHint(s shared) error {
	fd, err := opened(s.Path, 0)
	if err != nil {
		return err
	}
	value := uint64(hint)
	return call(unix.SYS_FCNTL, uintptr(fd), unix.F_SET_RW_HINT, uintptr(unsafe.Pointer(&value)))
}

func meetsHint(path string) bool {
	return withFile(path, func(fd int) bool {
		var value uint64
		return call(unix.SYS_FCNTL, uintptr(fd), unix.F_GET_RW_HINT, uintptr(unsafe.Pointer(&value))) == nil && value == hint
	})
}

// uses opens the file and reads of it.
func uses(s shared) error {
	fd, err := opened(filepath.Join(s.Path, s.Child), 0)
	if err != nil {
		return err
	}
	_, err = unix.Read(fd, make([]byte, 1))
	if errors.Is(err, unix.EISDIR) {
		err = nil // that it was opened is seen too
	}
	return err
}

func watchesInode(path string) (func() bool, error) {
	fd, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	if err != nil {
		return nil, err
	}
	if _, err := unix.InotifyAddWatch(fd, path, unix.IN_ALL_EVENTS); err != nil {
		return nil, err
	}
	return func() bool {
		n, err := unix.Read(fd, make([]byte, 4096))
		return err == nil && n > 0
	}, nil
}

// watchSignal is the last signal that stands for a directory.
var watchSignal = func() *atomic.Int32 {
	var number atomic.Int32
	number.Store(40)
	return &number
}()

// noticeReads is DN_ACCESS and DN_MULTISHOT, which golang.org/x/sys has no names for.
const noticeReads = 0x80000001

// watchesDirectory has the kernel send a signal for what is read in a directory.
func watchesDirectory(path string) (func() bool, error) {
	fd, err := opened(path, unix.O_DIRECTORY)
	if err != nil {
		return nil, err
	}
	number := watchSignal.Add(1)
	told := make(chan os.Signal, 1)
	signal.Notify(told, syscall.Signal(number))
	if err := call(unix.SYS_FCNTL, uintptr(fd), unix.F_SETSIG, uintptr(number)); err != nil {
		return nil, err
	}
	if err := call(unix.SYS_FCNTL, uintptr(fd), unix.F_NOTIFY, noticeReads); err != nil {
		return nil, err
	}
	return func() bool {
		signalsHeard()
		select {
		case <-told:
			return true
		case <-time.After(50 * time.Millisecond):
			return false
		}
	}, nil
}

// signalsHeard waits until this process hears signals that it is sent now: on a busy host
// it may have had no time for earlier ones.
func signalsHeard() {
	const last = syscall.Signal(64)
	heard := make(chan os.Signal, 1)
	signal.Notify(heard, last)
	defer signal.Stop(heard)
	if unix.Kill(unix.Getpid(), last) == nil {
		<-heard
	}
}

func executes(s shared) error {
	cmd := exec.Command(s.Path, "60")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: unix.SIGKILL}
	return cmd.Start()
}

// meetsExecution asks to write to the program, which nobody may who only reads it
// in a cell: what is refused tells whether somebody runs it.
func meetsExecution(path string) bool {
	fd, err := unix.Open(path, unix.O_WRONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err == nil {
		unix.Close(fd)
	}
	return errors.Is(err, unix.ETXTBSY)
}

// sharing is what signallers and watchers are told.
type sharing struct {
	Channel string
	Files   []shared
}

func (s sharing) channel() (channel, error) {
	for _, c := range channels {
		if c.name == s.Channel {
			return c, nil
		}
	}
	return channel{}, fmt.Errorf("no channel has the name %q", s.Channel)
}

// answerOf is what came of a signal or a watch.
func answerOf(err error) answer {
	a := answer{Passed: err == nil}
	if err != nil {
		a.Text = err.Error()
		errors.As(err, &a.Errno)
	}
	return a
}

// signaller signals by every file, says what came of each, and stays.
func signaller(f facts) error {
	c, err := f.Sharing.channel()
	if err != nil {
		return err
	}
	said := map[string]answer{}
	for _, file := range f.Sharing.Files {
		said[file.Name] = answerOf(c.signal(file))
	}
	if err := json.NewEncoder(os.Stdout).Encode(said); err != nil {
		return err
	}
	time.Sleep(time.Minute)
	return nil
}

// watcher watches every file, says what came of that, and says what it has seen
// once it is told that the signaller has signalled.
func watcher(f facts) error {
	c, err := f.Sharing.channel()
	if err != nil {
		return err
	}
	told := make(chan os.Signal, 1)
	signal.Notify(told, unix.SIGUSR1)
	out := json.NewEncoder(os.Stdout)
	look, began := c.watchAll(f.Sharing.Files)
	if err := out.Encode(began); err != nil {
		return err
	}
	<-told
	return out.Encode(look())
}

// watchAll watches every file; look says which signals were seen.
func (c channel) watchAll(files []shared) (look func() map[string]bool, began map[string]answer) {
	seen := map[string]func() bool{}
	began = map[string]answer{}
	for _, file := range files {
		see, err := c.watch(file.Path)
		if began[file.Name] = answerOf(err); err == nil {
			seen[file.Name] = see
		}
	}
	return func() map[string]bool {
		result := map[string]bool{}
		for name, see := range seen {
			result[name] = see()
		}
		return result
	}, began
}
