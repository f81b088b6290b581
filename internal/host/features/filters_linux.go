package features

import (
	"context"
	"fmt"
	"os"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// seccompActions are those that filters of ours return, and what lacks without.
var seccompActions = []struct {
	name     string
	code     uint32
	required bool
}{
	{"errno", unix.SECCOMP_RET_ERRNO, true},
	{"kill_process", unix.SECCOMP_RET_KILL_PROCESS, true},
	{"user_notif", unix.SECCOMP_RET_USER_NOTIF, false},
	{"log", unix.SECCOMP_RET_LOG, false},
}

// seccompAction is nil if filters may return the action.
func seccompAction(code uint32) error {
	_, _, errno := syscall.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_GET_ACTION_AVAIL, 0, uintptr(unsafe.Pointer(&code)))
	if errno != 0 {
		return os.NewSyscallError("seccomp", errno)
	}
	return nil
}

func surveySeccomp(context.Context) Facility {
	f := Facility{Name: "seccomp", State: OK, Required: true}
	var have, lack []string
	for _, action := range seccompActions {
		if seccompAction(action.code) == nil {
			have = append(have, action.name)
			continue
		}
		lack = append(lack, action.name)
		if action.required {
			f.State = Missing
		} else if f.State == OK {
			f.State = Limited
		}
	}
	f.Detail = "filters with " + strings.Join(have, ", ")
	if f.State != OK {
		f.Detail += "; not " + strings.Join(lack, ", ")
		f.Cost = "system calls of a sandbox cannot be filtered as they should"
		f.Remedy = "a kernel with CONFIG_SECCOMP_FILTER, 5.0 or newer"
	}
	return f
}

// LandlockABI is the version of landlock that this kernel offers, 0 for none.
func LandlockABI() int {
	abi, _, errno := syscall.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return 0
	}
	return int(abi)
}

func surveyLandlock(context.Context) Facility {
	f := Facility{Name: "landlock", State: OK}
	const scopes = 6 // the first version that bounds abstract sockets and signals
	switch abi := LandlockABI(); {
	case abi == 0:
		f.State, f.Detail = Missing, "not offered"
		f.Cost = "one layer less around the files of a sandbox, whose mounts still hide the rest"
		f.Remedy = "a kernel with CONFIG_SECURITY_LANDLOCK and lsm=landlock,... at boot"
	case abi < scopes:
		f.State, f.Detail = Limited, fmt.Sprintf("version %d", abi)
		f.Cost, f.Remedy = "files are covered, abstract sockets and signals are not", "Linux 6.12 or newer"
	default:
		f.Detail = fmt.Sprintf("version %d", abi)
	}
	return f
}
