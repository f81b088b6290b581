package confine

import (
	"os/exec"
	"syscall"

	"aether/internal/host/seccomp"

	"golang.org/x/sys/unix"
)

var noCall = []syscall.Errno{unix.ENOSYS}

// kernelTrials use interfaces of the kernel with arguments that would work.
func kernelTrials(facts) []trial {
	attr, params := make([]byte, 128), make([]byte, 120)
	list := []trial{
		{"bpf", func() error { return call(unix.SYS_BPF, 0, address(&attr[0]), 128) }, noPermission},
		{"perf_event_open", func() error { return call(unix.SYS_PERF_EVENT_OPEN, address(&attr[0]), 0, ^uintptr(0), ^uintptr(0), 0) }, noPermission},
		{"io_uring_setup", func() error { return call(unix.SYS_IO_URING_SETUP, 4, address(&params[0])) }, noPermission},
		{"userfaultfd", func() error { return call(unix.SYS_USERFAULTFD, 1) }, noPermission},
		{"keyctl", func() error { _, err := unix.KeyctlGetKeyringID(unix.KEY_SPEC_SESSION_KEYRING, false); return err }, noPermission},
		{"add_key", func() error {
			_, err := unix.AddKey("user", "x", []byte("x"), unix.KEY_SPEC_PROCESS_KEYRING)
			return err
		}, noPermission},
		{"setns", func() error { return joins("/proc/self/ns/user", unix.CLONE_NEWUSER) }, noPermission},
		{"clone3", func() error { return forks(address(&attr[0]), 88) }, noCall},
		{"clone3 of nothing", func() error { return call(unix.SYS_CLONE3, 0, 0) }, noCall},
		{"personality", func() error { return call(unix.SYS_PERSONALITY, 0x0400000) }, noPermission},
		{"memory that the kernel cannot see", func() error { return call(unix.SYS_MEMFD_SECRET, 0) }, noCall},
		{"a call of another ABI", func() error { return call(0x40000000|unix.SYS_GETPID, 0) }, noCall},
		{"a call that does not exist", func() error { return call(9999) }, noCall},
		{"another filter to listen to", func() error { return call(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_STRICT, 1, 0) }, nil},
	}
	for name, flag := range map[string]uintptr{"user": unix.CLONE_NEWUSER, "mount": unix.CLONE_NEWNS, "net": unix.CLONE_NEWNET,
		"pid": unix.CLONE_NEWPID, "ipc": unix.CLONE_NEWIPC, "uts": unix.CLONE_NEWUTS, "cgroup": unix.CLONE_NEWCGROUP} {
		list = append(list,
			trial{"unshare " + name, func() error { return call(unix.SYS_UNSHARE, flag) }, noPermission},
			trial{"clone " + name, func() error { return clones(flag) }, noPermission})
	}
	return list
}

func joins(path string, kind int) error {
	fd, err := unix.Open(path, unix.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Setns(fd, kind)
}

// clones starts a program in a new namespace.
func clones(flag uintptr) error {
	cmd := exec.Command("/usr/bin/true")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: flag}
	return cmd.Run()
}

// forks makes a copy of the attacker by clone3. The copy has one of the threads
// that its runtime counts on, so it ends at once: it would make the other trials
// too, answer them a second time, and sooner or later wait for ever.
//
//go:norace
func forks(args, size uintptr) error {
	pid, _, errno := syscall.RawSyscall(unix.SYS_CLONE3, args, size, 0)
	if errno != 0 {
		return errno
	}
	if pid == 0 {
		syscall.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
	}
	return nil
}

// refusalTrials make every call that the filter refuses by name.
func refusalTrials(facts) []trial {
	var list []trial
	for _, r := range seccomp.Refusals() {
		list = append(list, trial{r.Name, func() error { return call(uintptr(r.Nr)) }, noPermission})
	}
	return list
}
