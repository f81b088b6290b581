package oci

import (
	"runtime"
	"syscall"

	"github.com/opencontainers/runtime-spec/specs-go"

	"aether/driver/launched"
)

var architectures = map[string]specs.Arch{"amd64": specs.ArchX86_64, "arm64": specs.ArchAARCH64}

// filter is the system call filter of host/seccomp in the form of the
// specification.
func filter() *specs.LinuxSeccomp {
	noSuchCall, noPermission := uint(syscall.ENOSYS), uint(syscall.EPERM)
	calls := []specs.LinuxSyscall{
		{Names: launched.Calls, Action: specs.ActAllow},
		{Names: launched.Refused(), Action: specs.ActErrno, ErrnoRet: &noPermission},
	}
	for _, r := range launched.Rules() {
		calls = append(calls, allow(r))
	}
	return &specs.LinuxSeccomp{
		DefaultAction: specs.ActErrno, DefaultErrnoRet: &noSuchCall,
		Architectures: []specs.Arch{architectures[runtime.GOARCH]}, Syscalls: calls,
	}
}

func allow(r launched.Rule) specs.LinuxSyscall {
	call := specs.LinuxSyscall{Names: []string{r.Call}, Action: specs.ActAllow}
	for _, a := range r.Args {
		call.Args = append(call.Args, specs.LinuxSeccompArg{Index: a.Index, Value: a.Mask, ValueTwo: a.Value, Op: specs.OpMaskedEqual})
	}
	return call
}
