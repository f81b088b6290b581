package isolationprobe

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// status is a field of /proc/self/status.
func status(field string) (string, error) {
	text, err := read("/proc/self/status")
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(text)) {
		if name, rest, ok := strings.Cut(line, ":"); ok && name == field {
			return strings.TrimSpace(rest), nil
		}
	}
	return "", fmt.Errorf("/proc/self/status has no %s", field)
}

// capabilities are those that a process holds in any set from which it can use them.
func capabilities() (held uint64, err error) {
	for _, set := range []string{"CapInh", "CapPrm", "CapEff", "CapAmb"} {
		text, err := status(set)
		if err != nil {
			return 0, err
		}
		bits, err := strconv.ParseUint(text, 16, 64)
		if err != nil {
			return 0, err
		}
		held |= bits
	}
	return held, nil
}

var capabilityGroups = []struct {
	name string
	caps map[string]int
}{
	{"cap-sys-admin", map[string]int{"sys_admin": unix.CAP_SYS_ADMIN}},
	{"cap-sys-module", map[string]int{"sys_module": unix.CAP_SYS_MODULE}},
	{"cap-sys-rawio", map[string]int{"sys_rawio": unix.CAP_SYS_RAWIO}},
	{"cap-sys-ptrace", map[string]int{"sys_ptrace": unix.CAP_SYS_PTRACE}},
	{"cap-sys-boot", map[string]int{"sys_boot": unix.CAP_SYS_BOOT}},
	{"cap-sys-time", map[string]int{"sys_time": unix.CAP_SYS_TIME}},
	{"cap-sys-resource", map[string]int{"sys_resource": unix.CAP_SYS_RESOURCE}},
	{"cap-net-admin", map[string]int{"net_admin": unix.CAP_NET_ADMIN}},
	{"cap-net-raw", map[string]int{"net_raw": unix.CAP_NET_RAW}},
	{"cap-dac-read-search", map[string]int{"dac_read_search": unix.CAP_DAC_READ_SEARCH}},
	{"cap-dac-override", map[string]int{"dac_override": unix.CAP_DAC_OVERRIDE, "fowner": unix.CAP_FOWNER, "chown": unix.CAP_CHOWN}},
	{"cap-mknod", map[string]int{"mknod": unix.CAP_MKNOD}},
	{"cap-setuid", map[string]int{"setuid": unix.CAP_SETUID, "setgid": unix.CAP_SETGID, "setpcap": unix.CAP_SETPCAP, "setfcap": unix.CAP_SETFCAP}},
	{"cap-bpf", map[string]int{"bpf": unix.CAP_BPF, "perfmon": unix.CAP_PERFMON}},
	{"cap-mac", map[string]int{"mac_admin": unix.CAP_MAC_ADMIN, "mac_override": unix.CAP_MAC_OVERRIDE}},
	{"cap-log", map[string]int{"syslog": unix.CAP_SYSLOG, "audit_control": unix.CAP_AUDIT_CONTROL, "audit_read": unix.CAP_AUDIT_READ}},
}

func capabilityProbes() (list []probe) {
	for _, g := range capabilityGroups {
		list = append(list, probe{g.name, func(*looker) Sighting {
			held, err := capabilities()
			if err != nil {
				return unknown("%v", err)
			}
			for name, bit := range g.caps {
				if held&(1<<bit) != 0 {
					return open("%s is held", name)
				}
			}
			return closed("not held")
		}})
	}
	return list
}

// Namespaces are the kinds that are compared with the host's.
var Namespaces = []string{"user", "pid", "mnt", "net", "ipc", "uts", "cgroup"}

func namespaceProbes() (list []probe) {
	for _, kind := range Namespaces {
		list = append(list, probe{"ns-" + kind, func(*looker) Sighting {
			is, err := os.Readlink("/proc/self/ns/" + kind)
			if err != nil {
				return unknown("%v", err)
			}
			return value(is)
		}})
	}
	return list
}

var privilegeProbes = []probe{
	{"no-new-privs", func(*looker) Sighting { return statusIs("NoNewPrivs", "1") }},
	{"seccomp", func(*looker) Sighting { return statusIs("Seccomp", "2") }},
	{"root-outside", rootOutside},
	{"user-namespaces", userNamespaces},
	{"mounting", mounting},
	{"setuid-files", setuidFiles},
}

// statusIs is open unless a field has the value.
func statusIs(field, want string) Sighting {
	got, err := status(field)
	if err != nil {
		return unknown("%v", err)
	}
	return whether(got != want, field+" is "+got)
}

// rootOutside is whether who the program is inside is the root of the host, as far as
// the map of its namespace tells. The outside looks too.
func rootOutside(*looker) Sighting {
	text, err := read("/proc/self/uid_map")
	if err != nil {
		return unknown("%v", err)
	}
	return value(fmt.Sprintf("user %d of the map %s", os.Geteuid(), strings.Join(strings.Fields(string(text)), " ")))
}

// userNamespaces has a child be in one.
func userNamespaces(*looker) Sighting {
	err := childInUserNamespace()
	return whether(err == nil, fmt.Sprintf("a new user namespace: %v", result(err)))
}

// mounting asks for a file system of a type that does not exist: only who may mount is told
// so.
func mounting(*looker) Sighting {
	err := unix.Mount("none", "/", "aether-no-such-type", 0, "")
	return whether(err == unix.ENODEV, fmt.Sprintf("mount: %v", result(err)))
}

func result(err error) string {
	if err == nil {
		return "succeeds"
	}
	return err.Error()
}

// setuidFiles is whether programs that are left among the temporary files can have the
// set-user-id bit obeyed.
func setuidFiles(*looker) Sighting {
	var s unix.Statfs_t
	if err := unix.Statfs(os.TempDir(), &s); err != nil {
		return unknown("%v", err)
	}
	return whether(s.Flags&unix.ST_NOSUID == 0, fmt.Sprintf("the mount of %s has the flags %#x", os.TempDir(), s.Flags))
}
