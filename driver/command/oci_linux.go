package command

import (
	"runtime"
	"syscall"

	"github.com/opencontainers/runtime-spec/specs-go"
)

// ociArchitectures are the names of the specification of OCI runtimes.
var ociArchitectures = map[string]specs.Arch{"amd64": specs.ArchX86_64, "arm64": specs.ArchAARCH64}

// OCIFilter is the system call filter of internal/host/seccomp in the form of that
// specification.
func OCIFilter() *specs.LinuxSeccomp {
	noSuchCall, noPermission := uint(syscall.ENOSYS), uint(syscall.EPERM)
	calls := []specs.LinuxSyscall{
		{Names: Calls, Action: specs.ActAllow},
		{Names: Refused(), Action: specs.ActErrno, ErrnoRet: &noPermission},
	}
	for _, r := range Rules() {
		calls = append(calls, allow(r))
	}
	return &specs.LinuxSeccomp{
		DefaultAction: specs.ActErrno, DefaultErrnoRet: &noSuchCall,
		Architectures: []specs.Arch{ociArchitectures[runtime.GOARCH]}, Syscalls: calls,
	}
}

func allow(r Rule) specs.LinuxSyscall {
	call := specs.LinuxSyscall{Names: []string{r.Call}, Action: specs.ActAllow}
	for _, a := range r.Args {
		call.Args = append(call.Args, specs.LinuxSeccompArg{Index: a.Index, Value: a.Mask, ValueTwo: a.Value, Op: specs.OpMaskedEqual})
	}
	return call
}
