package firecracker

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"aether/driver/vmm"
	"aether/sandbox"
)

// jailID names the one machine of a jail: each has a directory of its own.
const jailID = "machine"

// jailer is the program that comes with Firecracker and confines it.
type jailer struct{ path, program string }

var _ vmm.Jail = jailer{}

// findJailer wants the jailer beside the Firecracker that it is of, named as it or
// named as releases do, after the version.
func findJailer(program string) (vmm.Jail, *sandbox.Gap) {
	dir, base := filepath.Split(program)
	for _, name := range []string{strings.Replace(base, "firecracker", "jailer", 1), "jailer"} {
		path := filepath.Join(dir, name)
		if info, err := os.Stat(path); name != base && err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return jailer{path, program}, nil
		}
	}
	return nil, &sandbox.Gap{Missing: "jailer beside " + program,
		Cost: "Firecracker runs as a user without rights, but with the host's files in sight", Remedy: "install the jailer of the same release"}
}

// Root implements vmm.Jail: where the jailer makes the root of its jail.
func (j jailer) Root(base string) string {
	return filepath.Join(base, filepath.Base(j.program), jailID, "root")
}

// Command implements vmm.Jail. It leaves cgroups alone: its process is in one
// already.
func (j jailer) Command(base string, user, group uint32, arguments []string) []string {
	return append([]string{j.path, "--id", jailID, "--exec-file", j.program, "--chroot-base-dir", base,
		"--uid", strconv.FormatUint(uint64(user), 10), "--gid", strconv.FormatUint(uint64(group), 10), "--"}, arguments...)
}
