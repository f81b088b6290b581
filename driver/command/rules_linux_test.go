package command

import (
	"slices"
	"syscall"
	"testing"

	"aether/internal/host/seccomp"
)

func allows(call string, args ...uint64) bool {
	return slices.ContainsFunc(Rules(), func(r Rule) bool {
		return r.Call == call && !slices.ContainsFunc(r.Args, func(a Arg) bool { return args[a.Index]&a.Mask != a.Value })
	})
}

func TestRules(t *testing.T) {
	const rubbish = 1 << 40
	for _, c := range []struct {
		call string
		args []uint64
		want bool
	}{
		{"clone", []uint64{uint64(syscall.SIGCHLD)}, true},
		{"clone", []uint64{syscall.CLONE_VM | syscall.CLONE_THREAD}, true},
		{"clone", []uint64{syscall.CLONE_NEWUSER}, false},
		{"clone", []uint64{rubbish | syscall.CLONE_NEWNS}, false},
		{"clone", []uint64{0x02000000}, false},
		{"socket", []uint64{syscall.AF_INET, 0, 0}, true},
		{"socket", []uint64{syscall.AF_NETLINK, 0, syscall.NETLINK_ROUTE}, true},
		{"socket", []uint64{syscall.AF_NETLINK, 0, syscall.NETLINK_AUDIT}, false},
		{"socket", []uint64{syscall.AF_PACKET, 0, 0}, false},
		{"socket", []uint64{syscall.AF_INET6, 0, syscall.IPPROTO_TCP}, true},
		{"socket", []uint64{syscall.AF_INET, 0, syscall.IPPROTO_SCTP}, false},
		{"socketpair", []uint64{syscall.AF_UNIX, 0, 0}, true},
		{"socketpair", []uint64{syscall.AF_INET, 0, 0}, false},
		{"ioctl", []uint64{0, syscall.TIOCGWINSZ}, true},
		{"ioctl", []uint64{0, 0}, true},
		{"ioctl", []uint64{0, seccomp.TIOCSTI}, false},
		{"ioctl", []uint64{0, rubbish | seccomp.TIOCSTI}, false},
		{"ioctl", []uint64{0, seccomp.TIOCLINUX}, false},
		{"ioctl", []uint64{0, 0x8000541c}, true},
		{"personality", []uint64{0}, true},
		{"personality", []uint64{0xffffffff}, true},
		{"personality", []uint64{0x0400000}, false},
	} {
		if got := allows(c.call, c.args...); got != c.want {
			t.Errorf("%s%#x: %v", c.call, c.args, got)
		}
	}
	for command := uint64(0); command < 1<<16; command++ {
		if got, want := allows("ioctl", 0, command), command != seccomp.TIOCSTI && command != seccomp.TIOCLINUX; got != want {
			t.Fatalf("ioctl %#x: %v", command, got)
		}
	}
}

// TestListsAreDisjoint: a call that is allowed as a whole has no other rule.
func TestListsAreDisjoint(t *testing.T) {
	var others []string
	for _, r := range Rules() {
		others = append(others, r.Call)
	}
	for _, name := range append(others, Refused()...) {
		if slices.Contains(Calls, name) {
			t.Errorf("%s is allowed, and not", name)
		}
	}
}
