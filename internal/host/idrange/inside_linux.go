package idrange

import (
	"bufio"
	"fmt"
	"os"
	"strings"
)

// span is a line of a map of ids.
type span struct{ inside, outside, count uint32 }

// Inside reads which ids the user namespace of a process has for those that files have
// here. Whoever asks for one that it does not have gets an error.
func Inside(pid int) (func(uid, gid uint32) (int, int, error), error) {
	users, err := spans(fmt.Sprintf("/proc/%d/uid_map", pid))
	if err != nil {
		return nil, err
	}
	groups, err := spans(fmt.Sprintf("/proc/%d/gid_map", pid))
	if err != nil {
		return nil, err
	}
	return func(uid, gid uint32) (int, int, error) {
		u, known := find(users, uid)
		g, both := find(groups, gid)
		if !known || !both {
			return 0, 0, fmt.Errorf("idrange: %d:%d is nobody inside", uid, gid)
		}
		return u, g, nil
	}, nil
}

func find(list []span, outside uint32) (int, bool) {
	for _, s := range list {
		if outside >= s.outside && outside-s.outside < s.count {
			return int(s.inside + (outside - s.outside)), true
		}
	}
	return 0, false
}

func spans(file string) (list []span, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	for scan := bufio.NewScanner(strings.NewReader(string(text))); scan.Scan(); {
		var s span
		if _, err := fmt.Sscan(scan.Text(), &s.inside, &s.outside, &s.count); err != nil {
			return nil, fmt.Errorf("idrange: %s: %w", file, err)
		}
		list = append(list, s)
	}
	return list, nil
}
