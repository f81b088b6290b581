package lab

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

	"aether/internal/host/sysinfo"
)

// Memory is the host's, in KiB by the names of /proc/meminfo.
type Memory map[string]int64

// kinds are the parts of memory that a living sandbox can hold.
var kinds = []struct{ field, name string }{
	{"SUnreclaim", "slab"}, {"SReclaimable", "reclaimable slab"}, {"Percpu", "per-cpu"}, {"KernelStack", "kernel stacks"},
	{"PageTables", "page tables"}, {"AnonPages", "anonymous pages"}, {"Shmem", "tmpfs"},
}

const available = "MemAvailable"

// Available is how much memory the host could still give.
func (m Memory) Available() int64 { return m[available] }

// Used is how much memory the kernel has given to processes and keeps for them. It
// is summed up by kind, for what is free says less: where a hypervisor takes free
// pages back, those that were freed are missing from it for many seconds.
func (m Memory) Used() (sum int64) {
	for _, kind := range []string{"AnonPages", "Shmem", "PageTables", "SecPageTables", "Slab", "VmallocUsed", "Percpu"} {
		sum += m[kind]
	}
	return sum
}

// ReadMemory looks at it now.
func ReadMemory() (Memory, error) {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return nil, err
	}
	return parseMemory(string(text))
}

func parseMemory(text string) (Memory, error) {
	m := Memory{}
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue
		}
		value, err := strconv.ParseInt(fields[1], 10, 64)
		if err != nil {
			return nil, fmt.Errorf("/proc/meminfo: %q: %w", line, err)
		}
		m[strings.TrimSuffix(fields[0], ":")] = value
	}
	if m[available] == 0 {
		return nil, fmt.Errorf("/proc/meminfo has no %s", available)
	}
	return m, nil
}

const (
	settleReadings = 8
	settlePause    = 100 * time.Millisecond
	settleSpread   = 1 << 10 // KiB
	// SettleTime is how long memory may take to settle.
	SettleTime = 5 * time.Second
)

// Settled reads the memory when a figure of it has stopped changing, or after a
// while the middle of what it changes between. What this program can give back, and
// dirty pages, are out of the picture first.
func Settled(ctx context.Context, figure func(Memory) int64) (Memory, error) {
	return SettledWithin(ctx, SettleTime, figure)
}

// SettledWithin is Settled for who has less time.
func SettledWithin(ctx context.Context, limit time.Duration, figure func(Memory) int64) (Memory, error) {
	debug.FreeOSMemory()
	sysinfo.Sync()
	var readings []Memory
	for deadline := time.Now().Add(limit); ; time.Sleep(settlePause) {
		m, err := ReadMemory()
		if err = cmp.Or(err, ctx.Err()); err != nil {
			return nil, err
		}
		readings = append(readings, m)
		last := readings[max(0, len(readings)-settleReadings):]
		sorted := slices.SortedFunc(slices.Values(last), func(a, b Memory) int { return cmp.Compare(figure(a), figure(b)) })
		calm := len(last) == settleReadings && figure(sorted[len(sorted)-1])-figure(sorted[0]) <= settleSpread
		if calm || time.Now().After(deadline) {
			return sorted[len(sorted)/2], nil
		}
	}
}

// Held is what n sandboxes hold, each, and in which kinds of memory. What else the
// host gained or lost between before and after counts half.
func Held(before, with, after Memory, n int) (each float64, parts []Part) {
	gain := func(field string) float64 {
		return (float64(with[field]) - float64(before[field]+after[field])/2) / float64(n)
	}
	for _, kind := range kinds {
		parts = append(parts, Part{kind.name, gain(kind.field), KiB})
	}
	return -gain(available), parts
}
