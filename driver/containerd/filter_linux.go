package containerd

import (
	"runtime"
	"syscall"

	"github.com/opencontainers/runtime-spec/specs-go"

	"aether/driver/launched"
)

var architectures = map[string]specs.Arch{"amd64": specs.ArchX86_64, "arm64": specs.ArchAARCH64}

// filter is the system call filter that cells have. Inside a machine it is one
// more wall, which most configurations of Kata leave out.
func filter() *specs.LinuxSeccomp {
	noSuchCall, noPermission := uint(syscall.ENOSYS), uint(syscall.EPERM)
	s := &specs.LinuxSeccomp{DefaultAction: specs.ActErrno, DefaultErrnoRet: &noSuchCall, Architectures: []specs.Arch{architectures[runtime.GOARCH]}}
	s.Syscalls = []specs.LinuxSyscall{
		{Names: launched.Calls, Action: specs.ActAllow},
		{Names: launched.Refused(), Action: specs.ActErrno, ErrnoRet: &noPermission},
	}
	for _, r := range launched.Rules() {
		call := specs.LinuxSyscall{Names: []string{r.Call}, Action: specs.ActAllow}
		for _, a := range r.Args {
			call.Args = append(call.Args, specs.LinuxSeccompArg{Index: a.Index, Value: a.Mask, ValueTwo: a.Value, Op: specs.OpMaskedEqual})
		}
		s.Syscalls = append(s.Syscalls, call)
	}
	return s
}
