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
func available() (int64, error) { return meminfo("MemAvailable") }

// used is how much memory the kernel has given to processes and keeps for them. It
// is summed up by kind, for what is free says less: where a hypervisor takes free
// pages back, those that were freed are missing from it for many seconds.
func used() (int64, error) {
	return meminfo("AnonPages", "Shmem", "PageTables", "SecPageTables", "Slab", "VmallocUsed", "Percpu")
}

// meminfo sums up fields that the kernel has.
func meminfo(names ...string) (sum int64, err error) {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0, err
	}
	found := false
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(line, ":")
		if fields := strings.Fields(value); len(fields) > 0 && slices.Contains(names, name) {
			kib, err := strconv.ParseInt(fields[0], 10, 64)
			if err != nil {
				return 0, err
			}
			sum, found = sum+kib<<10, true
		}
	}
	if !found {
		err = fmt.Errorf("/proc/meminfo has none of %q", names)
	}
	return sum, err
}

const (
	settleReadings = 8
	settlePause    = 100 * time.Millisecond
	settleSpread   = 1 << 20
	settleTime     = 4 * time.Second
)

// settled reads the used memory when it has stopped changing, or after a while
// the middle of what it changes between. What this program can give back is
// out of the picture first.
func settled(ctx context.Context) (int64, error) {
	debug.FreeOSMemory()
	var readings []int64
	for deadline := time.Now().Add(settleTime); ; time.Sleep(settlePause) {
		now, err := used()
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
