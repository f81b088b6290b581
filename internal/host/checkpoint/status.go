package checkpoint

import (
	"fmt"
	"strconv"
	"strings"
)

// status is what /proc/PID/status says of a process or thread.
type status string

// field is what stands behind a name.
func (s status) field(name string) string {
	for line := range strings.Lines(string(s)) {
		if value, ok := strings.CutPrefix(line, name); ok && strings.HasPrefix(value, ":") {
			return strings.TrimSpace(value[1:])
		}
	}
	return ""
}

// number reads a field in a base.
func (s status) number(name string, base int) (uint64, error) {
	text, _, _ := strings.Cut(s.field(name), " ")
	n, err := strconv.ParseUint(text, base, 64)
	if err != nil {
		return 0, fmt.Errorf("checkpoint: status has %s %.40q", name, s.field(name))
	}
	return n, nil
}

// NSPid is the number in the innermost pid namespace.
func (s status) nspid() (int, error) {
	numbers := strings.Fields(s.field("NSpid"))
	if len(numbers) == 0 {
		return 0, fmt.Errorf("checkpoint: status has no NSpid")
	}
	return strconv.Atoi(numbers[len(numbers)-1])
}

// ids reads a field that has numbers: four of users or groups, or a list.
func (s status) ids(name string) (list []uint32, err error) {
	for _, text := range strings.Fields(s.field(name)) {
		id, err := strconv.ParseUint(text, 10, 32)
		if err != nil {
			return nil, fmt.Errorf("checkpoint: status has %s %.40q", name, s.field(name))
		}
		list = append(list, uint32(id))
	}
	return list, nil
}

// parseGroups reads a process's group and session and the number of its
// terminal's device.
func parseGroups(stat string) (group, session, terminal int, err error) {
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	const first = 2 // after the state and the parent
	for i, to := range []*int{&group, &session, &terminal} {
		if first+i >= len(fields) {
			return 0, 0, 0, fmt.Errorf("checkpoint: stat has %d fields", len(fields))
		}
		if *to, err = strconv.Atoi(fields[first+i]); err != nil {
			return 0, 0, 0, err
		}
	}
	return group, session, terminal, nil
}
