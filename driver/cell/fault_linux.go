package cell

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"aether/guest"
	"aether/internal/host/confine"
	"aether/internal/host/features"
	"aether/internal/host/sysinfo"
	"aether/sandbox"
)

// startError says why a command did not start. An errno is the command's fault
// only in the part of the set-up that does what the command asks for: anywhere
// else it is the host that refused a step.
func startError(c guest.Command, err error) error {
	if e := outOfFiles(err); e != nil {
		return e
	}
	var fault *confine.Fault
	if !errors.As(err, &fault) {
		return err
	}
	e := &sandbox.Error{Op: "start", Err: err}
	switch fault.Part {
	case confine.ExecutePart:
		e.Class, e.Field, e.Reason = executeFault(c.Path, err)
	case confine.DirectoryPart:
		e.Class, e.Field, e.Reason = directoryFault(c.Dir, err)
	}
	switch {
	case e.Reason != "":
	case errors.Is(err, syscall.ENOMEM), errors.Is(err, syscall.EAGAIN) && fault.Part == confine.ClonePart:
		e.Class, e.Reason = sandbox.Exhausted, "the sandbox has reached its limit of processes or memory"
	case errors.Is(err, syscall.ESRCH):
		e.Class, e.Reason = sandbox.NotFound, "the sandbox is ending"
	default:
		e.Class, e.Reason = sandbox.Unavailable, "the host refused a step of entering the sandbox"
		e.Remedy = "see `aether doctor`"
	}
	return e
}

func executeFault(program string, err error) (class sandbox.Class, field, reason string) {
	switch {
	case errors.Is(err, syscall.ENOENT), errors.Is(err, syscall.ENOTDIR):
		return sandbox.NotFound, "", program + " or what it needs does not exist"
	case errors.Is(err, syscall.ENOMEM), errors.Is(err, syscall.EAGAIN):
		return sandbox.Exhausted, "", "the sandbox has reached its limit of processes or memory"
	case errors.Is(err, syscall.E2BIG):
		return sandbox.Invalid, "args", "the arguments and the environment are too large together"
	}
	return sandbox.Denied, "", program + " cannot be executed"
}

func directoryFault(dir string, err error) (class sandbox.Class, field, reason string) {
	switch {
	case errors.Is(err, syscall.ENOENT), errors.Is(err, syscall.ENOTDIR):
		return sandbox.NotFound, "cwd", fmt.Sprintf("%.200q is no directory of the sandbox", dir)
	case errors.Is(err, syscall.EACCES):
		return sandbox.Denied, "cwd", fmt.Sprintf("the user may not enter %.200q", dir)
	}
	return sandbox.Internal, "", ""
}

// unavailable says why the host allows no cell, if it is the host that does not.
func unavailable(err error) error {
	var typed *sandbox.Error
	if errors.As(err, &typed) {
		return err
	}
	if e := outOfFiles(err); e != nil {
		return e
	}
	e := &sandbox.Error{Class: sandbox.Unavailable, Err: err, Remedy: "see `aether doctor`"}
	var fault *confine.Fault
	var called *os.SyscallError
	switch {
	case errors.Is(err, syscall.ENOMEM):
		e.Class, e.Reason, e.Retry, e.Remedy = sandbox.Exhausted, "the host has no room for more processes", true, ""
	case errors.Is(err, syscall.EAGAIN) && !errors.As(err, &fault):
		e.Class, e.Retry = sandbox.Exhausted, true
		e.Reason, e.Remedy = outOfProcesses()
	case errors.As(err, &fault): // in a script, EAGAIN is also a wait that was in vain
		return faultOfHost(e, fault)
	case errors.As(err, &called) && called.Syscall == "clone3":
		return faultOfClone(e)
	case errors.Is(err, syscall.EPERM), errors.Is(err, syscall.EACCES):
		e.Reason = "this user may not make the namespaces or mounts of a cell"
		e.Remedy = namespaceRemedy()
	default:
		return err
	}
	return e
}

// faultOfHost fills in the reason for a step that the host refused.
func faultOfHost(e *sandbox.Error, fault *confine.Fault) error {
	switch {
	case errors.Is(fault, syscall.EPERM), errors.Is(fault, syscall.EACCES):
		e.Reason = "this user may not make the namespaces or mounts of a cell"
		e.Remedy = namespaceRemedy()
	case errors.Is(fault, syscall.ENOENT) && fault.Part == confine.StagePart:
		e.Class, e.Reason, e.Remedy = sandbox.Internal, "a part of the image went away", ""
	case errors.Is(fault, syscall.ENOSPC), errors.Is(fault, syscall.EDQUOT):
		e.Class, e.Reason, e.Remedy = sandbox.Exhausted, "the host has no room for the cell's files or namespaces", "free some, or raise the sysctls user.max_*_namespaces"
	default:
		e.Reason = "the host refused a step of making the sandbox"
	}
	return e
}

// faultOfClone fills in the reason for a process with namespaces of its own that
// could not be cloned.
func faultOfClone(e *sandbox.Error) error {
	switch {
	case errors.Is(e.Err, syscall.ENOSPC), errors.Is(e.Err, syscall.EUSERS):
		e.Class, e.Reason, e.Retry = sandbox.Exhausted, "the host's bound on namespaces is reached", true
		e.Remedy = "raise the sysctls user.max_*_namespaces"
	case errors.Is(e.Err, syscall.ENOSYS):
		e.Reason = "clone3 is not allowed here, or the kernel does not have it"
		e.Remedy = features.ContainerRemedy + "; otherwise Linux " + features.Least + " or newer"
	case errors.Is(e.Err, syscall.EPERM), errors.Is(e.Err, syscall.EACCES):
		e.Reason = "this user may not make the namespaces of a cell"
		e.Remedy = namespaceRemedy()
	default:
		e.Reason = "the host refused to make a process with namespaces of its own"
	}
	return e
}

// outOfFiles is for a program, or a host, that may have no more files open, or nil.
func outOfFiles(err error) error {
	e := &sandbox.Error{Class: sandbox.Exhausted, Retry: true, Err: err}
	switch {
	case errors.Is(err, syscall.EMFILE):
		e.Reason = fmt.Sprintf("this program has as many files open as it may, %d", sysinfo.MostFiles())
		e.Remedy = "raise its limit: ulimit -n, or LimitNOFILE= of its service"
	case errors.Is(err, syscall.ENFILE):
		e.Reason, e.Remedy = "the host has as many files open as it may", "raise the sysctl fs.file-max"
	default:
		return nil
	}
	return e
}

// outOfProcesses says what keeps this user from having more of them.
func outOfProcesses() (reason, remedy string) {
	if most, bound := sysinfo.MostProcesses(); bound {
		return fmt.Sprintf("the host has no room for more processes of this user, who may have %d", most),
			"raise the limit: ulimit -u, or LimitNPROC= of the service"
	}
	return "the host has no room for more processes",
		"raise the sysctls kernel.pid_max and kernel.threads-max, or pids.max (TasksMax= of a service) of the group that this program is in"
}

// namespaceRemedy names the setting that forbids namespaces, if there is one.
func namespaceRemedy() string {
	var e *sandbox.Error
	if errors.As(features.Userns(), &e) && e.Remedy != "" {
		return e.Remedy
	}
	return "see `aether doctor`; run as root, or allow unprivileged user namespaces"
}
