package command

import (
	"runtime"
	"syscall"

	"github.com/opencontainers/runtime-spec/specs-go"

	"aether/sandbox"
)

// OCIVersion is the oldest of the specification of OCI runtimes that has all that is
// asked for.
const OCIVersion = "1.0.2"

// OCILinux is what all that run on the host's kernel have in common: namespaces, the
// system call filter, and files that tell about or act on the host, hidden or
// read-only as all container engines have them.
func OCILinux(spec sandbox.Spec) *specs.Linux {
	return &specs.Linux{
		Namespaces: append(OCINamespaces(spec), specs.LinuxNamespace{Type: specs.CgroupNamespace}),
		Seccomp:    OCIFilter(),
		MaskedPaths: []string{"/proc/acpi", "/proc/asound", "/proc/interrupts", "/proc/kcore", "/proc/keys", "/proc/latency_stats",
			"/proc/sched_debug", "/proc/scsi", "/proc/timer_list", "/proc/timer_stats"},
		ReadonlyPaths: []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"},
	}
}

// OCINamespaces are those that every sandbox has of its own.
func OCINamespaces(spec sandbox.Spec) (list []specs.LinuxNamespace) {
	kinds := []specs.LinuxNamespaceType{specs.PIDNamespace, specs.MountNamespace, specs.IPCNamespace, specs.UTSNamespace}
	if spec.Network.Mode != sandbox.HostNetwork {
		kinds = append(kinds, specs.NetworkNamespace)
	}
	for _, kind := range kinds {
		list = append(list, specs.LinuxNamespace{Type: kind})
	}
	return list
}

// OCICapabilities are the same in every set but the ambient one, so that users inside
// other than root have none.
func OCICapabilities(list []string) *specs.LinuxCapabilities {
	return &specs.LinuxCapabilities{Bounding: list, Effective: list, Permitted: list}
}

// ociArchitectures are the names of that specification.
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
