package incus

import (
	"fmt"
	"runtime"
	"strings"
	"syscall"

	"aether/driver/launched"
)

var architectures = map[string]string{"amd64": "x86_64", "arm64": "arm64"}

// filter is the system call filter of host/seccomp in LXC's own form: version 2, a
// list of what is allowed, and rules for one architecture, so that those beside it
// have none and may nothing. It takes the place of the daemon's list of what is
// forbidden.
func filter() string {
	var text strings.Builder
	fmt.Fprintf(&text, "2\nallowlist errno %d\n[%s]\n", syscall.ENOSYS, architectures[runtime.GOARCH])
	for _, call := range launched.Calls {
		fmt.Fprintln(&text, call, "allow")
	}
	for _, call := range launched.Refused() {
		fmt.Fprintln(&text, call, "errno", int(syscall.EPERM))
	}
	for _, r := range launched.Rules() {
		fmt.Fprint(&text, r.Call, " allow ")
		for _, a := range r.Args {
			fmt.Fprintf(&text, "[%d,%d,SCMP_CMP_MASKED_EQ,%d]", a.Index, a.Value, a.Mask)
		}
		fmt.Fprintln(&text)
	}
	return text.String()
}
