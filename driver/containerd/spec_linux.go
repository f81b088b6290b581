package containerd

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/opencontainers/runtime-spec/specs-go"

	"aether/driver/command"
	"aether/driver/guestagent"
	"aether/image"
	"aether/internal/host/sysinfo"
	"aether/sandbox"
)

const (
	// guestPath is where the guest service's program is shown. It is not in /dev,
	// of which a machine has its own.
	guestPath = "/.aether-guest"

	cpuPeriod = 100_000 // microseconds
	maxPids   = 4 << 20
)

// specification is everything that a shim is told of a sandbox.
func (e *engine) specification(spec sandbox.Spec, root image.Root, group string) (*specs.Spec, error) {
	mounts, err := e.mounts(spec, root)
	if err != nil {
		return nil, err
	}
	linux := command.OCILinux(spec)
	linux.CgroupsPath, linux.Resources = group, e.resources(spec.Limits)
	return &specs.Spec{
		Version: command.OCIVersion, Hostname: spec.ID, Root: &specs.Root{Path: "rootfs"}, Mounts: mounts,
		Process: &specs.Process{Args: []string{guestPath, "-channel", "stdio"}, Cwd: "/", NoNewPrivileges: true,
			Capabilities: command.OCICapabilities(command.Capabilities)},
		Linux: linux,
	}, nil
}

// resources are the limits, and defaults for what shares the host's kernel: a
// machine is bounded by its own size.
func (e *engine) resources(l sandbox.Limits) *specs.LinuxResources {
	r := &specs.LinuxResources{Devices: []specs.LinuxDeviceCgroup{{Access: "rwm"}}} // none but the usual
	memory, pids := l.MemoryBytes, l.Processes
	if e.opts.boundary() == sandbox.ProcessBoundary {
		if memory == 0 {
			memory = sysinfo.HalfOfMemory()
		}
		if pids == 0 {
			pids = guestagent.DefaultProcesses
		}
	}
	if memory > 0 {
		r.Memory = &specs.LinuxMemory{Limit: &memory, Swap: &memory}
	}
	if pids > 0 {
		pids = min(pids+guestagent.Overhead, maxPids)
		r.Pids = &specs.LinuxPids{Limit: &pids}
	}
	if l.CPUs > 0 {
		quota, period := int64(l.CPUs*cpuPeriod), uint64(cpuPeriod)
		r.CPU = &specs.LinuxCPU{Quota: &quota, Period: &period}
	}
	return r
}

// mounts are those that every container has, the image's read-only directories,
// what the caller asked for, and the guest service.
func (e *engine) mounts(spec sandbox.Spec, root image.Root) ([]specs.Mount, error) {
	list := []specs.Mount{
		{Destination: "/proc", Type: "proc", Source: "proc", Options: []string{"nosuid", "noexec", "nodev"}},
		{Destination: "/dev", Type: "tmpfs", Source: "tmpfs", Options: []string{"nosuid", "noexec", "strictatime", "mode=755", "size=64k"}},
		{Destination: "/dev/pts", Type: "devpts", Source: "devpts", Options: []string{"nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620"}},
		{Destination: "/dev/shm", Type: "tmpfs", Source: "shm", Options: []string{"nosuid", "noexec", "nodev", "mode=1777", "size=64m"}},
	}
	for _, b := range root.Binds {
		list = append(list, e.view(b.Source, b.Target))
	}
	for _, m := range spec.Mounts {
		if _, err := os.Stat(m.Source); err != nil {
			return nil, sandbox.Invalidf("mounts", "%v", err)
		}
		list = append(list, bind(m.Source, m.Target, m.Writable))
	}
	return append(list, bind(e.guest, guestPath, false)), nil
}

// view shows a directory of the host through an overlay of the sandbox's own, so that
// its locks and watches are nobody else's. Below it is the bare layer's empty directory,
// since an overlay has two layers at least. A kernel of its own sees to that itself.
func (e *engine) view(source, target string) specs.Mount {
	if e.opts.boundary() > sandbox.ProcessBoundary {
		return bind(source, target, false)
	}
	lower := "lowerdir=" + escape(source) + ":" + escape(filepath.Join(string(e.Bare), "proc"))
	return specs.Mount{Destination: target, Type: "overlay", Source: "overlay", Options: []string{"ro", "nosuid", "nodev", lower}}
}

// bind shows a path of the host. Read-only is the mount itself alone, so others
// below it are not shown.
func bind(source, target string, writable bool) specs.Mount {
	m := specs.Mount{Destination: target, Type: "bind", Source: source, Options: []string{"bind", "ro", "nosuid", "nodev", "private"}}
	if writable {
		m.Options = []string{"rbind", "rw", "nosuid", "nodev", "rprivate"}
	}
	return m
}

// overlayOptions join layers, lowest first, below what is written.
func overlayOptions(layers []string, upper, work string) []string {
	var lower []string
	for i := len(layers) - 1; i >= 0; i-- {
		lower = append(lower, escape(layers[i]))
	}
	return []string{"lowerdir=" + strings.Join(lower, ":"), "upperdir=" + escape(upper), "workdir=" + escape(work), "userxattr"}
}

// escape keeps the kernel from taking parts of a path for its own marks.
func escape(path string) string {
	return strings.NewReplacer(`\`, `\\`, `:`, `\:`, `,`, `\,`).Replace(path)
}
