package docker

import (
	"encoding/json"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/opencontainers/runtime-spec/specs-go"

	"aether/driver/command"
	"aether/driver/guestagent"
	"aether/image"
	"aether/sandbox"
)

const (
	maxHostname = 63
	cpuPeriod   = 100_000 // microseconds
	maxPids     = 4 << 20
	// defaultShared is the size of /dev/shm, as Docker has it.
	defaultShared = 64 << 20
	// recursiveReadOnly is the minor version of the API from which on the daemon can make
	// everything below a mount read-only.
	recursiveReadOnly = 44
	// noDomains keeps the daemon from handing on the host's.
	noDomains = "."
)

// container is everything that the daemon is told of a sandbox.
func (e *engine) container(spec sandbox.Spec, root image.Root, ref, runtime string) (configuration, error) {
	mounts, err := e.mounts(spec, root)
	if err != nil {
		return configuration{}, err
	}
	filter, err := e.filter()
	if err != nil {
		return configuration{}, err
	}
	no := false
	what := configuration{
		Image: ref, Hostname: spec.ID[:min(len(spec.ID), maxHostname)], User: "0:0", WorkingDir: "/",
		Entrypoint: command.GuestArgs,
		// The service ends when its input does, and that ends with this program.
		OpenStdin: true, StdinOnce: true, AttachStdin: true, AttachStdout: true, AttachStderr: true,
		// Its daemon's stop need not wait for it either.
		StopSignal: "SIGKILL",
		Labels:     map[string]string{ownerLabel: e.Owner.Label, idLabel: spec.ID},
		HostConfig: hostConfig{
			Runtime: runtime, Mounts: mounts, Init: &no,
			NetworkMode: networks[spec.Network.Mode], IpcMode: "private", CgroupnsMode: "private",
			CapDrop: []string{"ALL"}, CapAdd: command.Capabilities, SecurityOpt: append(filter, "no-new-privileges"),
			// What the service says is for us alone, and there is much of it.
			LogConfig:  logConfig{Type: "none"},
			ShmSize:    sharedSize(spec.Limits),
			StorageOpt: storage(spec.Limits),
		},
	}
	if spec.Network.Mode.Filtered() {
		// The daemon mounts a file for it, which nobody inside can put another in the place of.
		what.HostConfig.DNS, what.HostConfig.DNSSearch = []string{sandbox.Gateway}, []string{noDomains}
	}
	e.limit(&what.HostConfig, spec.Limits)
	return what, nil
}

// filter has the daemon use the system call filter of all sandboxes on the host's kernel
// in the place of its own, if it can use any.
func (e *engine) filter() ([]string, error) {
	if !slices.ContainsFunc(e.daemon.SecurityOptions, func(o string) bool { return strings.HasPrefix(o, "name=seccomp") }) {
		return nil, nil
	}
	profile, noSuchCall := command.OCIFilter(), uint(syscall.ENOSYS)
	// Older daemons give no other answer than EPERM to what is not listed, after which
	// libraries would not use clone in the place of this one.
	profile.Syscalls = append(profile.Syscalls, specs.LinuxSyscall{Names: []string{"clone3"}, Action: specs.ActErrno, ErrnoRet: &noSuchCall})
	text, err := json.Marshal(profile)
	return []string{"seccomp=" + string(text)}, err
}

// networks are the daemon's. A sandbox of the egress mode gets its device from this
// program.
var networks = map[sandbox.NetworkMode]string{sandbox.NoNetwork: "none", sandbox.EgressNetwork: "none", sandbox.NatNetwork: "none", sandbox.HostNetwork: "host"}

// limit sets the limits, and defaults where the daemon can hold them.
func (e *engine) limit(r *hostConfig, l sandbox.Limits) {
	if r.Memory = l.MemoryBytes; r.Memory == 0 && e.daemon.MemoryLimit {
		r.Memory = e.daemon.MemTotal / 2
	}
	r.MemorySwap = r.Memory // the limit is on both together
	if l.CPUs > 0 {
		r.CPUPeriod, r.CPUQuota = cpuPeriod, int64(l.CPUs*cpuPeriod)
	}
	pids := l.Processes
	if pids == 0 && e.daemon.PidsLimit {
		pids = guestagent.DefaultProcesses
	}
	if pids > 0 {
		pids = min(pids+guestagent.Overhead, maxPids)
		r.PidsLimit = &pids
	}
}

// storage bounds what can be written. Whether the daemon can, it says when it is
// asked.
func storage(l sandbox.Limits) map[string]string {
	if l.DiskBytes == 0 {
		return nil
	}
	return map[string]string{"size": strconv.FormatInt(l.DiskBytes, 10)}
}

func sharedSize(l sandbox.Limits) int64 {
	if l.DiskBytes == 0 {
		return defaultShared
	}
	return min(l.DiskBytes, defaultShared)
}

// mounts are the image's read-only directories, what the caller asked for, and
// the guest service.
func (e *engine) mounts(spec sandbox.Spec, root image.Root) ([]mount, error) {
	var list []mount
	for _, b := range root.Binds {
		list = append(list, e.bind(b.Source, b.Target, false))
	}
	for _, m := range spec.Mounts {
		if _, err := os.Stat(m.Source); err != nil {
			return nil, sandbox.Invalidf("mounts", "%v", err)
		}
		list = append(list, e.bind(m.Source, m.Target, m.Writable))
	}
	return append(list, e.bind(e.guest, command.GuestPath, false)), nil
}

// bind shows a path of the host. An older daemon makes only the mount itself
// read-only and would show others below it writable, so it shows none of those.
func (e *engine) bind(source, target string, writable bool) mount {
	m := mount{Type: "bind", Source: source, Target: target, ReadOnly: !writable}
	if m.ReadOnly {
		recursive := e.api.api.Load() >= recursiveReadOnly
		m.BindOptions = &bindOptions{NonRecursive: !recursive, ReadOnlyForceRecursive: recursive}
		if recursive {
			m.BindOptions.Propagation = "rprivate" // which this needs
		}
	}
	return m
}
