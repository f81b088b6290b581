package checkpoint

import (
	"errors"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// readLimits asks for them, or reads them where that takes a right that this program
// lacks (CAP_SYS_RESOURCE).
func (s *State) readLimits() error {
	for i := range s.Limits {
		err := unix.Prlimit(s.PID, i, nil, &s.Limits[i])
		if errors.Is(err, unix.EPERM) {
			return s.readLimitsFile()
		}
		if err != nil {
			return os.NewSyscallError("prlimit", err)
		}
	}
	return nil
}

func (s *State) readLimitsFile() error {
	text, err := readProc(fmt.Sprintf("/proc/%d/limits", s.PID))
	if err == nil {
		err = parseLimits(string(text), s.Limits[:])
	}
	return err
}

// parseLimits reads /proc/PID/limits: a heading, and below it a line for each limit in
// the order of their numbers.
func parseLimits(text string, limits []unix.Rlimit) error {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	if len(lines) != len(limits)+1 {
		return fmt.Errorf("checkpoint: %d lines of limits", len(lines))
	}
	const soft, hard, end = 26, 47, 67 // columns
	for i, line := range lines[1:] {
		if len(line) < end {
			return fmt.Errorf("checkpoint: a limit reads %.80q", line)
		}
		for _, part := range []struct {
			text string
			to   *uint64
		}{{line[soft:hard], &limits[i].Cur}, {line[hard:end], &limits[i].Max}} {
			var err error
			if *part.to, err = parseLimit(strings.TrimSpace(part.text)); err != nil {
				return fmt.Errorf("checkpoint: a limit reads %.80q", line)
			}
		}
	}
	return nil
}

func parseLimit(text string) (uint64, error) {
	if text == "unlimited" {
		return math.MaxUint64, nil
	}
	return strconv.ParseUint(text, 10, 64)
}
