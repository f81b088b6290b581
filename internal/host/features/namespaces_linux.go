package features

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"aether/internal/host/spawn"
	"aether/sandbox"
)

// Userns is nil if this user can make user namespaces that are good for
// anything. Otherwise it is Unavailable, with the setting that forbids them.
func Userns() error {
	err := try(unix.CLONE_NEWUSER|unix.CLONE_NEWNS, private)
	if err == nil {
		return nil
	}
	return &sandbox.Error{Class: sandbox.Unavailable, Op: "user namespace",
		Reason: "this user may not make one", Remedy: usernsRemedy(err), Err: err}
}

var usernsSettings = []struct{ name, forbids, remedy string }{
	{"user/max_user_namespaces", "0", "as root: sysctl -w user.max_user_namespaces=10000"},
	{"kernel/unprivileged_userns_clone", "0", "as root: sysctl -w kernel.unprivileged_userns_clone=1"},
	{"kernel/apparmor_restrict_unprivileged_userns", "1",
		"as root: sysctl -w kernel.apparmor_restrict_unprivileged_userns=0, or an AppArmor profile that lets aether have userns"},
}

// ContainerRemedy is what lets sandboxes be made inside a container: the profiles of
// container runtimes forbid namespaces and mounts, and cover parts of /proc, without
// all of which the kernel lets no user namespace have a /proc of its own.
const ContainerRemedy = "in a container: docker run --security-opt seccomp=unconfined --security-opt apparmor=unconfined --security-opt systempaths=unconfined ..."

func usernsRemedy(err error) string {
	for _, setting := range usernsSettings {
		value, readErr := os.ReadFile("/proc/sys/" + setting.name)
		if readErr == nil && strings.TrimSpace(string(value)) == setting.forbids {
			return setting.remedy
		}
	}
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EUSERS) {
		return "too many are in use or too deep inside each other: raise user.max_user_namespaces"
	}
	if profile := confinement(); profile != "" {
		return fmt.Sprintf("AppArmor's profile %.80q forbids it: as root, add a profile for aether that allows userns and capabilities, or run aether as root", profile)
	}
	return ContainerRemedy
}

// confinement is the profile of AppArmor that this program is under, if that is the
// only thing around it: a container's has the container's remedy, and a filter of
// system calls too.
func confinement() string {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil || !strings.Contains(string(status), "\nSeccomp:\t0\n") {
		return ""
	}
	label, err := os.ReadFile("/proc/self/attr/apparmor/current")
	if err != nil {
		return ""
	}
	profile, mode, _ := strings.Cut(strings.TrimSpace(string(label)), " ")
	if mode != "(enforce)" {
		return ""
	}
	return profile
}

func surveyUserns(context.Context) Facility {
	f := Facility{Name: "user namespaces", Required: true, Detail: "usable by this user",
		Cost: "root inside a sandbox cannot be kept apart from root outside"}
	return Judge(f, Userns())
}

var namespaces = []struct {
	name     string
	flag     uint64
	required bool
}{
	{"pid", unix.CLONE_NEWPID, true},
	{"mount", unix.CLONE_NEWNS, true},
	{"net", unix.CLONE_NEWNET, true},
	{"ipc", unix.CLONE_NEWIPC, true},
	{"uts", unix.CLONE_NEWUTS, true},
	{"cgroup", unix.CLONE_NEWCGROUP, true},
	{"time", unix.CLONE_NEWTIME, false},
}

func surveyNamespaces(context.Context) Facility {
	f := Facility{Name: "namespaces", State: OK, Required: true}
	var have, lack []string
	for _, ns := range namespaces {
		if err := tryNamespace(ns.flag); err == nil {
			have = append(have, ns.name)
			continue
		}
		lack = append(lack, ns.name)
		if ns.required {
			f.State = Missing
		} else if f.State == OK {
			f.State = Limited
		}
	}
	f.Detail = strings.Join(have, ", ")
	if len(lack) > 0 {
		f.Detail += "; not " + strings.Join(lack, ", ")
		f.Cost = "sandboxes share with the host what they cannot have for themselves"
		f.Remedy = "a kernel with these namespaces compiled in, and a container, if any, that allows them"
	}
	return f
}

// tryNamespace makes one as the engine would: behind a user namespace, if there
// are any, so that its right to do so does not depend on who we are.
func tryNamespace(flag uint64) error {
	flags := flag | unix.CLONE_NEWUSER
	calls := nothing
	if flag == unix.CLONE_NEWTIME {
		// clone3 has it too, but only for a child that does not share memory.
		flags = unix.CLONE_NEWUSER
		calls = func(s *spawn.Script) { s.Call(unix.SYS_UNSHARE, uintptr(flag)) }
	}
	err := try(flags, calls)
	if err != nil && os.Geteuid() == 0 {
		return try(flags&^unix.CLONE_NEWUSER, calls)
	}
	return err
}
