package lab

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// Busy is the share of the host's processors that was used during a while in which the
// caller does nothing: what somebody else takes away from what is measured.
func Busy(ctx context.Context, while time.Duration) (float64, error) {
	before, err := readProcessors()
	if err != nil {
		return 0, err
	}
	select {
	case <-time.After(while):
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	after, err := readProcessors()
	if err != nil || after.total == before.total {
		return 0, err
	}
	return 1 - float64(after.idle-before.idle)/float64(after.total-before.total), nil
}

// processors is how long all of them together were idle, of how long.
type processors struct{ idle, total uint64 }

func readProcessors() (processors, error) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return processors{}, err
	}
	return parseProcessors(string(text))
}

// parseProcessors reads the first line of /proc/stat: user, nice, system, idle, iowait,
// irq, softirq and steal. Guests are in user already.
func parseProcessors(text string) (p processors, err error) {
	line, _, _ := strings.Cut(text, "\n")
	fields := strings.Fields(line)
	const idle, iowait, last = 4, 5, 8
	if len(fields) <= last || fields[0] != "cpu" {
		return p, fmt.Errorf("/proc/stat begins with %.80q", line)
	}
	for i, field := range fields[1 : last+1] {
		n, err := strconv.ParseUint(field, 10, 64)
		if err != nil {
			return p, fmt.Errorf("/proc/stat: %w", err)
		}
		p.total += n
		if i+1 == idle || i+1 == iowait {
			p.idle += n
		}
	}
	return p, nil
}
