package fork

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"
)

// available is how much memory the host could still give, in bytes.
func available() (int64, error) {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) >= 2 && fields[0] == "MemAvailable:" {
			kib, err := strconv.ParseInt(fields[1], 10, 64)
			return kib << 10, err
		}
	}
	return 0, fmt.Errorf("/proc/meminfo has no MemAvailable")
}

const (
	settleReadings = 8
	settlePause    = 100 * time.Millisecond
	settleSpread   = 1 << 20
	settleTime     = 4 * time.Second
)

// settled reads the available memory when it has stopped changing, or after a
// while the middle of what it changes between. What this program can give back is
// out of the picture first.
func settled(ctx context.Context) (int64, error) {
	debug.FreeOSMemory()
	var readings []int64
	for deadline := time.Now().Add(settleTime); ; time.Sleep(settlePause) {
		now, err := available()
		if err = cmp.Or(err, ctx.Err()); err != nil {
			return 0, err
		}
		readings = append(readings, now)
		last := slices.Sorted(slices.Values(readings[max(0, len(readings)-settleReadings):]))
		calm := len(last) == settleReadings && last[len(last)-1]-last[0] <= settleSpread
		if calm || time.Now().After(deadline) {
			return last[len(last)/2], nil
		}
	}
}
