package cgroup

import (
	"errors"
	"path"
	"slices"
	"strconv"
	"strings"
)

// mount is one mounted cgroup file system.
type mount struct {
	point       string // where it is mounted
	root        string // which of its directories is mounted there
	unified     bool   // version 2
	controllers []string
}

// parseMounts finds the cgroup file systems in the text of a mountinfo file.
func parseMounts(text string) []mount {
	var mounts []mount
	for line := range strings.Lines(text) {
		if m, ok := parseMount(line); ok {
			mounts = append(mounts, m)
		}
	}
	return mounts
}

// parseMount reads one line: six fixed fields, any number of optional ones, a
// dash, then type, source and the options of the file system.
func parseMount(line string) (mount, bool) {
	before, after, found := strings.Cut(line, " - ")
	fixed, kind := strings.Fields(before), strings.Fields(after)
	if !found || len(fixed) < 6 || len(kind) < 3 {
		return mount{}, false
	}
	m := mount{root: unescape(fixed[3]), point: unescape(fixed[4])}
	switch kind[0] {
	case "cgroup2":
		m.unified = true
	case "cgroup":
		m.controllers = strings.Split(kind[2], ",")
	default:
		return mount{}, false
	}
	return m, path.IsAbs(m.point) && path.IsAbs(m.root)
}

// unescape undoes the kernel's octal form of blanks and backslashes in paths.
func unescape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if code, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(code))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// parseMembership reads /proc/PID/cgroup: the group of the process by controller,
// that of version 2 under the empty name.
func parseMembership(text string) map[string]string {
	groups := map[string]string{}
	for line := range strings.Lines(text) {
		fields := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(fields) < 3 {
			continue
		}
		for name := range strings.SplitSeq(fields[1], ",") {
			groups[name] = fields[2]
		}
	}
	return groups
}

var errOutside = errors.New("this process is in a group that is not visible here")

// directory says where the group is found under the mount.
func (m mount) directory(group string) (string, error) {
	rest := group
	if m.root != "/" {
		var inside bool
		if rest, inside = strings.CutPrefix(group, m.root); !inside || rest != "" && rest[0] != '/' {
			return "", errOutside
		}
	}
	// A group above the root of the cgroup namespace is shown as /../name.
	if slices.Contains(strings.Split(rest, "/"), "..") {
		return "", errOutside
	}
	return path.Join(m.point, rest), nil
}

// counter finds the number after key in lines of "key number".
func counter(text []byte, key string) (int64, bool) {
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if name == key {
			return number([]byte(value))
		}
	}
	return 0, false
}

// number reads a file that holds one decimal number.
func number(text []byte) (int64, bool) {
	n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	return n, err == nil
}
