package isolationprobe

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// A census attempts every number of the system call table. Reachable is a call whose code in
// the kernel looked at the arguments: it answers with a result or with an error that is about
// them. EPERM and EACCES are refusals, be it by a filter or by the kernel, which then does no
// more for this caller; ENOSYS is a call that is not there, or is said not to be.
//
// Unless a row of harmless says otherwise, all arguments are -1: a descriptor that nobody
// has, an address that no process has, flags and sizes that no call takes.

// census is the error number of each attempt; zero is success.
type census map[int]unix.Errno

// What became of a caller that did not say.
const (
	wasKilled unix.Errno = 0x1000 + iota
	hasHung
)

// callTime is how long one attempt may take.
var callTime = 5 * time.Second

// takeCensus has children make the calls, since a filter may kill who makes one.
func takeCensus() (census, error) {
	c := census{}
	for from := nextCall(0); from >= 0; {
		last, err := c.follow(from)
		if err != nil {
			return nil, err
		}
		from = nextCall(last + 1)
	}
	return c, nil
}

// follow starts a child at a number, and gives the last number that is known then.
func (c census) follow(from int) (last int, err error) {
	cmd := exec.Command(self(), modeCalls, strconv.Itoa(from))
	out, err := cmd.StdoutPipe()
	if err != nil {
		return 0, err
	}
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	var hung atomic.Bool
	late := time.AfterFunc(callTime, func() { hung.Store(true); cmd.Process.Kill() })
	last = from - 1
	for scan := bufio.NewScanner(out); scan.Scan(); late.Reset(callTime) {
		var number, errno int
		if _, err := fmt.Sscan(scan.Text(), &number, &errno); err != nil {
			break
		}
		c[number], last = unix.Errno(errno), number
	}
	late.Stop()
	if cmd.Wait() == nil {
		return lastCall, nil // it has made them all
	}
	next := nextCall(last + 1)
	if next < 0 {
		return lastCall, nil
	}
	c[next] = wasKilled
	if hung.Load() {
		c[next] = hasHung
	}
	return next, nil
}

// nextCall is the least number from one on that is attempted, or -1.
func nextCall(from int) int {
	for n := from; n <= lastCall; n++ {
		if (n < gapFrom || n > gapTo) && !slices.Contains(untried, n) {
			return n
		}
	}
	return -1
}

const nothing = ^uintptr(0)

// makeCalls attempts all calls from a number on and writes what each answered.
func makeCalls(from int, out io.Writer) error {
	runtime.LockOSThread()
	for n := nextCall(from); n >= 0; n = nextCall(n + 1) {
		a, special := harmless[n]
		if !special {
			a = args{nothing, nothing, nothing, nothing, nothing, nothing}
		}
		_, _, errno := unix.RawSyscall6(uintptr(n), a[0], a[1], a[2], a[3], a[4], a[5])
		if _, err := fmt.Fprintln(out, n, int(errno)); err != nil {
			return err
		}
	}
	return nil
}

type args [6]uintptr

func isRefusal(e unix.Errno) bool {
	return errors.Is(e, unix.EPERM) || errors.Is(e, unix.EACCES) || e == wasKilled
}

func (c census) reachable(n int) bool {
	errno, tried := c[n]
	return tried && errno != unix.ENOSYS && !isRefusal(errno)
}

func (c census) count() Calls {
	calls := Calls{Tried: len(c)}
	for n, errno := range c {
		switch {
		case c.reachable(n):
			calls.Answered++
		case isRefusal(errno):
			calls.Refused++
		default:
			calls.Absent++
		}
	}
	return calls
}

// named is a system call with its name, for people.
type named struct {
	name   string
	number int
}

// callGroups are calls that a sandbox on the host's kernel has no need of and whose code has
// let others out before.
var callGroups = []struct {
	name  string
	calls []named
}{
	{"calls-mount", []named{{"mount", unix.SYS_MOUNT}, {"umount2", unix.SYS_UMOUNT2}, {"pivot_root", unix.SYS_PIVOT_ROOT}, {"fsopen", unix.SYS_FSOPEN},
		{"fsconfig", unix.SYS_FSCONFIG}, {"fsmount", unix.SYS_FSMOUNT}, {"move_mount", unix.SYS_MOVE_MOUNT}, {"open_tree", unix.SYS_OPEN_TREE}, {"mount_setattr", unix.SYS_MOUNT_SETATTR}}},
	{"calls-namespaces", []named{{"unshare", unix.SYS_UNSHARE}, {"setns", unix.SYS_SETNS}, {"clone3", unix.SYS_CLONE3}}},
	{"calls-keyring", []named{{"keyctl", unix.SYS_KEYCTL}, {"add_key", unix.SYS_ADD_KEY}, {"request_key", unix.SYS_REQUEST_KEY}}},
	{"calls-bpf", []named{{"bpf", unix.SYS_BPF}}},
	{"calls-io-uring", []named{{"io_uring_setup", unix.SYS_IO_URING_SETUP}, {"io_uring_enter", unix.SYS_IO_URING_ENTER}, {"io_uring_register", unix.SYS_IO_URING_REGISTER}}},
	{"calls-userfaultfd", []named{{"userfaultfd", unix.SYS_USERFAULTFD}}},
	{"calls-perf", []named{{"perf_event_open", unix.SYS_PERF_EVENT_OPEN}}},
	{"calls-modules", []named{{"init_module", unix.SYS_INIT_MODULE}, {"finit_module", unix.SYS_FINIT_MODULE}, {"delete_module", unix.SYS_DELETE_MODULE}}},
	{"calls-machine", []named{{"reboot", unix.SYS_REBOOT}, {"kexec_load", unix.SYS_KEXEC_LOAD}, {"swapon", unix.SYS_SWAPON}, {"swapoff", unix.SYS_SWAPOFF},
		{"acct", unix.SYS_ACCT}, {"sethostname", unix.SYS_SETHOSTNAME}, {"quotactl", unix.SYS_QUOTACTL}, {"syslog", unix.SYS_SYSLOG}}},
	{"calls-clock", []named{{"settimeofday", unix.SYS_SETTIMEOFDAY}, {"clock_settime", unix.SYS_CLOCK_SETTIME}, {"clock_adjtime", unix.SYS_CLOCK_ADJTIME}}},
	{"calls-handles", []named{{"open_by_handle_at", unix.SYS_OPEN_BY_HANDLE_AT}}},
	{"calls-memory-policy", []named{{"mbind", unix.SYS_MBIND}, {"migrate_pages", unix.SYS_MIGRATE_PAGES}, {"move_pages", unix.SYS_MOVE_PAGES}, {"set_mempolicy", unix.SYS_SET_MEMPOLICY}}},
	{"calls-fanotify", []named{{"fanotify_init", unix.SYS_FANOTIFY_INIT}, {"fanotify_mark", unix.SYS_FANOTIFY_MARK}}},
	{"calls-asynchronous-io", []named{{"io_setup", unix.SYS_IO_SETUP}}},
}

func callProbes() (list []probe) {
	for _, g := range callGroups {
		list = append(list, probe{g.name, func(l *looker) Sighting { return l.calls.group(g.calls) }})
	}
	return list
}

func (c census) group(calls []named) Sighting {
	var answered []string
	for _, call := range calls {
		if c.reachable(call.number) {
			answered = append(answered, call.name)
		}
	}
	if len(answered) > 0 {
		return open("answered: %s", strings.Join(answered, ", "))
	}
	return closed("refused or absent")
}
