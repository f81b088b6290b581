package confine

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// processTrials reach for processes that are not the attacker's.
func processTrials(f facts) []trial {
	return []trial{
		{"see others", seeOthers, nil},
		{"signal a process of the host", func() error { return unix.Kill(f.Pid, unix.SIGKILL) }, nil},
		{"signal everybody", func() error { return unix.Kill(-1, unix.SIGKILL) }, nil},
		{"hold a process of the host", func() error { _, err := unix.PidfdOpen(f.Pid, 0); return err }, nil},
		{"limit a process of the host", func() error { return unix.Prlimit(f.Pid, unix.RLIMIT_CPU, &unix.Rlimit{}, nil) }, nil},
		{"trace PID 1", func() error { return unix.PtraceAttach(1) }, noPermission},
		{"read PID 1's memory", func() error { return yields("/proc/1/mem") }, nil},
		{"read PID 1's maps", func() error { return yields("/proc/1/maps") }, nil},
		{"read PID 1's environment", func() error { return yields("/proc/1/environ") }, nil},
		{"list PID 1's descriptors", func() error { return lists("/proc/1/fd") }, nil},
		{"copy PID 1's memory", func() error { return copyMemory(1, 0x400000, make([]byte, 8)) }, nil},
		{"take PID 1's descriptor", func() error { return takeDescriptor(1, 0) }, nil},
		{"be killed last", func() error { return adjust("-1000") }, nil},
		{"be killed later", func() error { return adjust("-1") }, nil},
		{"be preferred", func() error { return unix.Setpriority(unix.PRIO_PROCESS, 0, -5) }, nil},
		{"be preferred as a user", func() error { return unix.Setpriority(unix.PRIO_USER, 0, -5) }, nil},
		{"run in real time", realTime, noPermission},
		{"do input and output in real time", func() error { return call(unix.SYS_IOPRIO_SET, 1, 0, 1<<13) }, noPermission},
	}
}

func seeOthers() error {
	pids, err := filepath.Glob("/proc/[0-9]*")
	for _, pid := range pids {
		if pid != "/proc/1" && pid != "/proc/"+strconv.Itoa(os.Getpid()) {
			return nil
		}
	}
	return errors.Join(errHeld, err)
}

// adjust lowers the attacker's readiness to be killed below what it was given.
func adjust(by string) error {
	text, err := os.ReadFile("/proc/self/oom_score_adj")
	if err != nil {
		return err
	}
	now, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return err
	}
	less, err := strconv.Atoi(by)
	if err != nil {
		return err
	}
	if now == -1000 {
		return errHeld // the host gave all it has: nothing is left to take
	}
	return writes("/proc/self/oom_score_adj", strconv.Itoa(max(now+less, -1000)))
}

func realTime() error {
	return unix.SchedSetAttr(0, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: 1}, 0)
}

func copyMemory(pid int, address uint64, into []byte) error {
	local := []unix.Iovec{{Base: &into[0], Len: uint64(len(into))}}
	remote := []unix.RemoteIovec{{Base: uintptr(address), Len: len(into)}}
	n, err := unix.ProcessVMReadv(pid, local, remote, 0)
	if err == nil && n == 0 {
		err = errHeld
	}
	return err
}

func takeDescriptor(pid, fd int) error {
	pidfd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return err
	}
	defer unix.Close(pidfd)
	_, err = unix.PidfdGetfd(pidfd, fd, 0)
	return err
}

// spy watches for processes that are just entering the cell and tries to read,
// while they share memory with the program outside, what is that program's. It
// prints each kind of leak once.
func spy(f facts) error {
	own := proc{os.Getpid()}
	mounts, seen := own.text("mountinfo"), map[string]bool{}
	fmt.Println("ready")
	for end := time.Now().Add(time.Duration(f.Limit) * time.Millisecond); time.Now().Before(end); {
		for _, p := range others() {
			for _, l := range p.leaks(f, mounts) {
				if !seen[l] {
					fmt.Println("leak:", l)
				}
				seen[l] = true
			}
		}
	}
	return nil
}

type proc struct{ pid int }

func (p proc) path(name string) string { return fmt.Sprintf("/proc/%d/%s", p.pid, name) }

// text is empty if the file may not be read.
func (p proc) text(name string) string {
	content, _ := os.ReadFile(p.path(name))
	return string(content)
}

// others are the processes of the cell that are neither PID 1 nor the attacker.
func others() (list []proc) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil && pid != 1 && pid != os.Getpid() {
			list = append(list, proc{pid})
		}
	}
	return list
}

// leaks judges by content, for what a process has after its execution is its
// neighbours' to see.
func (p proc) leaks(f facts, mounts string) (list []string) {
	note := func(leaked bool, what string) {
		if leaked {
			list = append(list, what)
		}
	}
	seen := p.text("mountinfo")
	note(seen != "" && seen != mounts, "mounts of the host")
	note(strings.Contains(p.text("net/unix"), f.Abstract), "sockets of the host")
	note(strings.Contains(p.text("environ"), f.Secret), "environment")
	note(strings.Contains(p.text("maps"), ".test"), "maps")
	note(p.memory(f), "memory")
	note(takeDescriptor(p.pid, firstFd) == nil, "descriptor")
	note(p.readsFile(f), "file")
	note(writes(p.path("oom_score_adj"), "999") == nil && strings.Contains(p.text("cmdline"), "-test."), "order of being killed")
	return list
}

func (p proc) memory(f facts) bool {
	into := make([]byte, len(f.Secret))
	if copyMemory(p.pid, f.Address, into) == nil && bytes.Equal(into, []byte(f.Secret)) {
		return true
	}
	mem, err := os.Open(p.path("mem"))
	if err != nil {
		return false
	}
	defer mem.Close()
	_, err = mem.ReadAt(into, int64(f.Address))
	return err == nil && bytes.Equal(into, []byte(f.Secret))
}

func (p proc) readsFile(f facts) bool {
	return holds(p.path("root")+f.File, f.Secret) == nil || holds(p.path("cwd")+f.File, f.Secret) == nil
}

// stopper stops every process that appears, in the hope of one that has not
// executed its program yet and for which the program outside is waiting.
func stopper(f facts) error {
	fmt.Println("ready")
	for end := time.Now().Add(time.Duration(f.Limit) * time.Millisecond); time.Now().Before(end); {
		for _, p := range others() {
			_ = unix.Kill(p.pid, unix.SIGSTOP) // one that has gone is no loss
		}
	}
	return nil
}
