package twin

import (
	"fmt"
	"strconv"
	"strings"
)

// status is what /proc/PID/status says of a process or thread.
type status map[string]string

func parseStatus(text string) status {
	s := status{}
	for line := range strings.SplitSeq(text, "\n") {
		if name, value, ok := strings.Cut(line, ":"); ok {
			s[name] = strings.TrimSpace(value)
		}
	}
	return s
}

// number reads a field in a base.
func (s status) number(name string, base int) (uint64, error) {
	text, _, _ := strings.Cut(s[name], " ")
	n, err := strconv.ParseUint(text, base, 64)
	if err != nil {
		return 0, fmt.Errorf("twin: status has %s %.40q", name, s[name])
	}
	return n, nil
}

// inside is the number in the innermost pid namespace.
func (s status) inside() (int, error) {
	numbers := strings.Fields(s["NSpid"])
	if len(numbers) == 0 {
		return 0, fmt.Errorf("twin: status has no NSpid")
	}
	return strconv.Atoi(numbers[len(numbers)-1])
}

// parseGroups reads a process's group and session and the number of its
// terminal's device.
func parseGroups(stat string) (group, session, terminal int, err error) {
	after := stat[strings.LastIndexByte(stat, ')')+1:]
	var state string
	var parent int
	_, err = fmt.Sscan(after, &state, &parent, &group, &session, &terminal)
	return group, session, terminal, err
}
