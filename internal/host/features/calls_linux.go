package features

import (
	"context"
	"os"

	"golang.org/x/sys/unix"
)

func surveyClone(context.Context) Facility {
	f := Facility{Name: "clone3", Required: true, Detail: "starts processes from system call scripts",
		Cost:   "sandboxes cannot be started",
		Remedy: ContainerRemedy + "; otherwise Linux " + Least + " or newer"}
	return Judge(f, try(0, nothing))
}

func surveyOpenat2(context.Context) Facility {
	f := Facility{Name: "openat2", Required: true, Detail: "resolves paths beneath a root",
		Cost: "paths of a sandbox cannot be followed safely from outside", Remedy: "Linux 5.6 or newer"}
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS}
	fd, err := unix.Openat2(unix.AT_FDCWD, "/", &how)
	if err == nil {
		err = unix.Close(fd)
	}
	return Judge(f, os.NewSyscallError("openat2", err))
}

func surveyPidfd(context.Context) Facility {
	f := Facility{Name: "pidfd", Required: true, Detail: "signals cannot reach a recycled process id",
		Cost: "a process cannot be named without a race", Remedy: "Linux 5.4 or newer"}
	fd, err := unix.PidfdOpen(os.Getpid(), 0)
	if err == nil {
		err = unix.Close(fd)
	}
	return Judge(f, os.NewSyscallError("pidfd_open", err))
}
