package cell

import (
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"

	"aether/guest"
	"aether/internal/host/confine"
	"aether/internal/host/spawn"
	"aether/sandbox"
)

func faultIn(part string, errno syscall.Errno) error {
	return &confine.Fault{Part: part, Err: &spawn.Failure{Step: "call()", Errno: errno}}
}

const anywhere = "enter the cell's namespaces"

// TestStartErrors: an errno is told as the command's fault only where it is.
func TestStartErrors(t *testing.T) {
	command := guest.Command{Path: "/bin/program", Dir: "/some/place"}
	for _, c := range []struct {
		part  string
		errno syscall.Errno
		class sandbox.Class
		says  string
	}{
		{confine.ExecutePart, syscall.ENOENT, sandbox.NotFound, "/bin/program or what it needs does not exist"},
		{confine.ExecutePart, syscall.ENOTDIR, sandbox.NotFound, "/bin/program or what it needs does not exist"},
		{confine.ExecutePart, syscall.EACCES, sandbox.Denied, "/bin/program cannot be executed"},
		{confine.ExecutePart, syscall.EPERM, sandbox.Denied, "/bin/program cannot be executed"},
		{confine.ExecutePart, syscall.ENOEXEC, sandbox.Denied, "/bin/program cannot be executed"},
		{confine.ExecutePart, syscall.ELOOP, sandbox.Denied, "/bin/program cannot be executed"},
		{confine.ExecutePart, syscall.E2BIG, sandbox.Invalid, "too large"},
		{confine.ExecutePart, syscall.EAGAIN, sandbox.Exhausted, "limit of processes or memory"},
		{confine.ExecutePart, syscall.ENOMEM, sandbox.Exhausted, "limit of processes or memory"},
		{confine.DirectoryPart, syscall.ENOENT, sandbox.NotFound, `"/some/place" is no directory`},
		{confine.DirectoryPart, syscall.ENOTDIR, sandbox.NotFound, `"/some/place" is no directory`},
		{confine.DirectoryPart, syscall.EACCES, sandbox.Denied, `may not enter "/some/place"`},
		{confine.ClonePart, syscall.EAGAIN, sandbox.Exhausted, "limit of processes or memory"},
		{confine.ClonePart, syscall.ENOMEM, sandbox.Exhausted, "limit of processes or memory"},
		{confine.ClonePart, syscall.ENOENT, sandbox.Unavailable, "the host refused a step"},
		{confine.ClonePart, syscall.ENODEV, sandbox.Unavailable, "the host refused a step"},
		{anywhere, syscall.ENOENT, sandbox.Unavailable, "the host refused a step"},
		{anywhere, syscall.ENOTDIR, sandbox.Unavailable, "the host refused a step"},
		{anywhere, syscall.EACCES, sandbox.Unavailable, "the host refused a step"},
		{anywhere, syscall.EPERM, sandbox.Unavailable, "the host refused a step"},
		{anywhere, syscall.E2BIG, sandbox.Unavailable, "the host refused a step"},
		{anywhere, syscall.EAGAIN, sandbox.Unavailable, "the host refused a step"},
		{anywhere, syscall.ENOMEM, sandbox.Exhausted, "limit of processes or memory"},
		{anywhere, syscall.ESRCH, sandbox.NotFound, "the sandbox is ending"},
	} {
		err := startError(command, faultIn(c.part, c.errno))
		if got := sandbox.ClassOf(err); got != c.class || !strings.Contains(err.Error(), c.says) || !errors.Is(err, c.errno) {
			t.Errorf("%v in %q: %v: %v", c.errno, c.part, got, err)
		}
		if c.class == sandbox.Unavailable && (strings.Contains(err.Error(), command.Path) || !strings.Contains(err.Error(), "aether doctor")) {
			t.Errorf("%v in %q blames the program, or nobody: %v", c.errno, c.part, err)
		}
	}
}

// TestUnavailable: what keeps a cell from being made is told as what it is.
func TestUnavailable(t *testing.T) {
	clone := func(errno syscall.Errno) error { return os.NewSyscallError("clone3", errno) }
	for _, c := range []struct {
		err   error
		class sandbox.Class
		says  string
	}{
		{clone(syscall.EPERM), sandbox.Unavailable, "may not make the namespaces"},
		{clone(syscall.ENOSPC), sandbox.Exhausted, "bound on namespaces"},
		{clone(syscall.EUSERS), sandbox.Exhausted, "bound on namespaces"},
		{clone(syscall.ENOSYS), sandbox.Unavailable, "clone3"},
		{clone(syscall.EAGAIN), sandbox.Exhausted, "no room for more processes"},
		{clone(syscall.EMFILE), sandbox.Exhausted, "ulimit -n"},
		{faultIn(anywhere, syscall.EMFILE), sandbox.Exhausted, "ulimit -n"},
		{os.NewSyscallError("socketpair", syscall.ENFILE), sandbox.Exhausted, "fs.file-max"},
		{clone(syscall.ENOENT), sandbox.Unavailable, "refused to make a process"},
		{faultIn(confine.StagePart, syscall.ENOENT), sandbox.Internal, "a part of the image went away"},
		{faultIn(anywhere, syscall.ENOENT), sandbox.Unavailable, "the host refused a step"},
		{faultIn(anywhere, syscall.EAGAIN), sandbox.Unavailable, "the host refused a step"},
		{faultIn(anywhere, syscall.ENOSPC), sandbox.Exhausted, "no room for the cell's files or namespaces"},
		{faultIn(anywhere, syscall.EACCES), sandbox.Unavailable, "may not make the namespaces"},
		{faultIn(anywhere, syscall.ENOMEM), sandbox.Exhausted, "no room for more processes"},
		{sandbox.Invalidf("mounts", "wrong"), sandbox.Invalid, "wrong"},
		{syscall.EIO, sandbox.Internal, "input/output error"},
	} {
		err := unavailable(c.err)
		if got := sandbox.ClassOf(err); got != c.class || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v: %v: %v", c.err, got, err)
		}
	}
}
