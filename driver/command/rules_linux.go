package command

import (
	"syscall"

	"aether/internal/host/seccomp"
)

// Rule allows a system call if all of its conditions are met.
type Rule struct {
	Call string
	Args []Arg
}

// Arg is met by a call whose argument of that index, under the mask, is the value.
type Arg struct {
	Index       uint
	Mask, Value uint64
}

// lowWord is what the kernel looks at where an argument has 32 bits.
const lowWord = 1<<32 - 1

// Refused are the names of the calls that are to answer EPERM.
func Refused() (names []string) {
	for _, r := range seccomp.Refusals() {
		names = append(names, r.Name)
	}
	return names
}

// Rules are the calls that are allowed in part, as internal/host/seccomp checks them.
func Rules() []Rule {
	rules := []Rule{
		{"clone", []Arg{{0, seccomp.NewNamespaces, 0}}},
		{"socketpair", []Arg{{0, lowWord, syscall.AF_UNIX}}},
		// The ordinary personality, a query, and none of the addresses random.
		{"personality", []Arg{{0, lowWord, 0}}},
		{"personality", []Arg{{0, lowWord, seccomp.Query}}},
		{"personality", []Arg{{0, lowWord, seccomp.AddrNoRandomize}}},
	}
	for _, family := range seccomp.Sockets {
		for _, protocol := range family.Protocols {
			rules = append(rules, Rule{"socket", []Arg{{0, lowWord, uint64(family.Number)}, {2, lowWord, uint64(protocol)}}})
		}
	}
	// No leases, watches by signal and hints: see FcntlAllowed.
	rules = append(rules, Rule{"fcntl", []Arg{{1, lowWord &^ (seccomp.FcntlBase - 1), 0}}})
	for _, command := range seccomp.FcntlAllowed {
		rules = append(rules, Rule{"fcntl", []Arg{{1, lowWord, uint64(command)}}})
	}
	return append(rules, terminals()...)
}

// terminals allow ioctl with every command but the two that type into a terminal.
// Filters of names cannot say "neither of two". The two have all but the last four
// bits in common, so every other command differs from them in a bit above or is
// one of fourteen.
func terminals() (rules []Rule) {
	for bit := uint64(1 << 4); bit < 1<<32; bit <<= 1 {
		rules = append(rules, Rule{"ioctl", []Arg{{1, bit, ^uint64(seccomp.TIOCSTI) & bit}}})
	}
	for command := uint64(seccomp.TIOCSTI &^ 0xf); command <= seccomp.TIOCSTI|0xf; command++ {
		if command != seccomp.TIOCSTI && command != seccomp.TIOCLINUX {
			rules = append(rules, Rule{"ioctl", []Arg{{1, lowWord, command}}})
		}
	}
	return rules
}
