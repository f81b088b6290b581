package confine

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"unsafe"

	"aether/internal/host/coredump"

	"golang.org/x/sys/unix"
)

// privilegeTrials try to become more than the attacker was started as.
func privilegeTrials(facts) []trial {
	other := os.Getuid() + 1
	list := []trial{
		{"take capabilities", takesCapabilities, noPermission},
		{"ambient capabilities", func() error {
			return call(unix.SYS_PRCTL, unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_RAISE, unix.CAP_SYS_ADMIN)
		}, noPermission},
		{"become another user", func() error { return call(unix.SYS_SETRESUID, uintptr(other), uintptr(other), uintptr(other)) }, nil},
		{"become another group", func() error { return call(unix.SYS_SETRESGID, uintptr(other), uintptr(other), uintptr(other)) }, nil},
		{"leave groups", func() error { return call(unix.SYS_SETGROUPS, 0, 0) }, noPermission},
		{"allow new privileges again", func() error { return call(unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 0) }, nil},
		{"a set-user-id program", func() error { return runsAsAnother("-u", os.Geteuid()) }, nil},
		{"a set-group-id program", func() error { return runsAsAnother("-g", os.Getegid()) }, nil},
		{"securebits", func() error { return call(unix.SYS_PRCTL, unix.PR_SET_SECUREBITS, 0x2f) }, noPermission},
		{"raise a hard limit", raisesLimit, noPermission},
		{"have crashes told to the host", lowersCoreLimit, nil},
	}
	for _, line := range []struct{ name, value string }{{"CapInh", none}, {"CapPrm", none}, {"CapEff", none}, {"CapBnd", none},
		{"CapAmb", none}, {"NoNewPrivs", "1"}, {"Seccomp", "2"}} {
		list = append(list, trial{"have another " + line.name, func() error { return differs(line.name, line.value) }, nil})
	}
	return list
}

const none = "0000000000000000"

// differs passes if a line of the attacker's status is not what it should be.
func differs(name, value string) error {
	text, err := os.ReadFile("/proc/thread-self/status")
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(text)) {
		if got, ok := strings.CutPrefix(line, name+":"); ok && strings.TrimSpace(got) == value {
			return errHeld
		}
	}
	return nil
}

func takesCapabilities() error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	data := [2]unix.CapUserData{{Effective: 1 << unix.CAP_SYS_ADMIN, Permitted: 1 << unix.CAP_SYS_ADMIN}}
	return call(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&header)), uintptr(unsafe.Pointer(&data[0])))
}

// setIDProgram is in the image: id, owned by root where root made the image,
// with both set-id bits.
const setIDProgram = "/set-id"

func runsAsAnother(flag string, own int) error {
	out, err := exec.Command(setIDProgram, flag).Output()
	if err != nil {
		return fmt.Errorf("run %s: %w", setIDProgram, err)
	}
	if strings.TrimSpace(string(out)) == strconv.Itoa(own) {
		return errHeld
	}
	return nil
}

func raisesLimit() error {
	var now unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_MSGQUEUE, &now); err != nil {
		return err
	}
	return unix.Setrlimit(unix.RLIMIT_MSGQUEUE, &unix.Rlimit{Cur: now.Cur, Max: now.Max + 1<<20})
}

// lowersCoreLimit passes if its limit of core dumps is another than the only one for which
// the kernel tells no handler, or can be made so.
func lowersCoreLimit() error {
	wanted := unix.Rlimit{Cur: coredump.Limit, Max: coredump.Limit}
	for _, to := range []unix.Rlimit{{}, {Cur: 1 << 20, Max: 1 << 20}} {
		for _, set := range []func() error{
			func() error { return nil },
			func() error { return unix.Prlimit(0, unix.RLIMIT_CORE, &to, nil) },
			func() error { return unix.Prlimit(os.Getpid(), unix.RLIMIT_CORE, &to, new(unix.Rlimit)) },
			func() error {
				return call(unix.SYS_SETRLIMIT, unix.RLIMIT_CORE, uintptr(unsafe.Pointer(&to)))
			},
		} {
			var now unix.Rlimit
			if err := errors.Join(set(), unix.Getrlimit(unix.RLIMIT_CORE, &now)); err != nil || now != wanted {
				return err
			}
		}
	}
	return errHeld
}
