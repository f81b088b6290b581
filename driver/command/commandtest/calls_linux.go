package commandtest

import (
	"slices"
	"strings"
	"testing"

	"aether/sandbox"
)

// Call is a system call by its number on amd64 and its arguments, and the error
// numbers that are right.
type Call struct{ Args, Want, Why string }

const (
	noPermission = "1"
	noCall       = "38"
)

// Refused are calls that are refused by name.
var Refused = []Call{
	{"272 0x10000000", noPermission, "unshare"},
	{"165 0 0 0 0 0", noPermission, "mount"},
	{"250 0 0 0", noPermission, "keyctl"},
	{"321 0 0 0", noPermission, "bpf"},
	{"425 1 0", noPermission, "io_uring_setup"},
	{"323 0", noPermission, "userfaultfd"},
	{"298 0 0 0 0 0", noPermission, "perf_event_open"},
}

// InPart are calls that are allowed or not by their arguments.
var InPart = []Call{
	{"56 0x10000011", noCall, "clone with a user namespace"},
	{"56 0x02000011", noCall, "clone with a cgroup namespace"},
	{"435 0 0", noCall, "clone3"},
	{"41 17 3 0", noCall, "a packet socket"},
	{"41 38 5 0", noCall, "an algorithm socket"},
	{"41 16 3 9", noCall, "an audit socket"},
	{"41 16 3 0", "0", "a route socket"},
	{"41 1 1 0", "0", "a unix socket"},
	{"41 2 1 262", noCall, "multipath TCP"},
	{"41 2 1 6", "0", "TCP"},
	{"16 99 0x5412 0", noCall, "TIOCSTI"},
	{"16 99 0x541c 0", noCall, "TIOCLINUX"},
	{"16 99 0x100005412 0", noCall, "TIOCSTI with rubbish above"},
	{"16 99 0x5413 0", "9", "TIOCGWINSZ of no descriptor"},
	{"16 99 0x80045430 0", "9", "TIOCGPTN of no descriptor"},
	{"72 99 1024 0", noCall, "a lease"},
	{"72 99 1036 0", noCall, "a hint for writes"},
	{"72 99 1030 0", "9", "a copy of no descriptor"},
	{"72 99 1 0", "9", "the flags of no descriptor"},
	{"135 0xffffffff", "0", "the personality"},
	{"135 0x0400000", noCall, "another personality"},
	{"9999", noCall, "a call that nobody knows"},
}

// InPartCompiled are InPart under the filter as internal/host/seccomp compiles it: it
// tells the refusals apart that filters of names cannot.
func InPartCompiled() []Call {
	const noFamily, noProtocol, invalid = "97", "93", "22"
	calls := slices.Clone(InPart)
	for i, c := range calls {
		switch number, _, _ := strings.Cut(c.Args, " "); {
		case c.Want == noCall && (strings.HasPrefix(c.Args, "41 2 ") || strings.HasPrefix(c.Args, "41 16 ")):
			calls[i].Want = noProtocol
		case c.Want == noCall && number == "72":
			calls[i].Want = invalid
		case c.Want == noCall && number == "41":
			calls[i].Want = noFamily
		case c.Want == noCall && slices.Contains([]string{"16", "56", "135"}, number):
			calls[i].Want = noPermission
		}
	}
	return calls
}

// caller makes the calls on its standard input and prints the errno of each.
const caller = `python3 -c '
import ctypes, sys
libc = ctypes.CDLL(None, use_errno=True)
for line in sys.stdin:
    ctypes.set_errno(0)
    libc.syscall(*[ctypes.c_long(int(word, 0)) for word in line.split()])
    print(ctypes.get_errno())
' <<'END'
`

// Filter makes calls in a sandbox.
func Filter(t *testing.T, instance sandbox.Instance, calls []Call) {
	t.Helper()
	if arch, _ := Sh(t, instance, "uname -m; command -v python3"); !strings.Contains(arch, "x86_64") || !strings.Contains(arch, "python3") {
		t.Skip("the numbers are those of amd64, and python3 makes the calls")
	}
	script := caller
	for _, c := range calls {
		script += c.Args + "\n"
	}
	out, status := Sh(t, instance, script+"END")
	got := strings.Fields(out)
	if status.Code != 0 || len(got) != len(calls) {
		t.Fatalf("%+v: %s", status, out)
	}
	for i, c := range calls {
		if c.Want != got[i] {
			t.Errorf("%s: errno %s, want %s", c.Why, got[i], c.Want)
		}
	}
}
