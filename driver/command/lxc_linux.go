package command

import (
	"fmt"
	"runtime"
	"strings"
	"syscall"
)

// lxcArchitectures are LXC's names of them.
var lxcArchitectures = map[string]string{"amd64": "x86_64", "arm64": "arm64"}

// LXCFilter is the system call filter of internal/host/seccomp in the form that LXC and what
// is built on it read: version 2, a list of what is allowed, and rules for one
// architecture, so that those beside it have none and may nothing.
func LXCFilter() string {
	var text strings.Builder
	fmt.Fprintf(&text, "2\nallowlist errno %d\n[%s]\n", syscall.ENOSYS, lxcArchitectures[runtime.GOARCH])
	for _, call := range Calls {
		fmt.Fprintln(&text, call, "allow")
	}
	for _, call := range Refused() {
		fmt.Fprintln(&text, call, "errno", int(syscall.EPERM))
	}
	for _, r := range Rules() {
		fmt.Fprint(&text, r.Call, " allow ")
		for _, a := range r.Args {
			fmt.Fprintf(&text, "[%d,%d,SCMP_CMP_MASKED_EQ,%d]", a.Index, a.Value, a.Mask)
		}
		fmt.Fprintln(&text)
	}
	return text.String()
}
