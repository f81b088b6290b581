package main

import (
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"aether/internal/host/sysinfo"
)

// memory is the host's, in KiB by the names of /proc/meminfo.
type memory map[string]int64

// kinds are the parts of memory that a living sandbox can hold.
var kinds = []struct{ field, name string }{
	{"SUnreclaim", "slab"}, {"SReclaimable", "reclaimable slab"}, {"Percpu", "per-cpu"}, {"KernelStack", "kernel stacks"},
	{"PageTables", "page tables"}, {"AnonPages", "anonymous pages"}, {"Shmem", "tmpfs"},
}

const available = "MemAvailable"

func readMemory() (memory, error) {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return nil, err
	}
	return parseMemory(string(text))
}

func parseMemory(text string) (memory, error) {
	m := memory{}
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
	settlePause    = 150 * time.Millisecond
	settleSpread   = 512 // KiB
	settleTime     = 5 * time.Second
)

// settled reads the memory when it has stopped changing, or after a while the
// middle of what it changes between. What this program can give back, and dirty
// pages, are out of the picture first.
func settled() (memory, error) {
	debug.FreeOSMemory()
	sysinfo.Sync()
	var readings []memory
	for deadline := time.Now().Add(settleTime); ; time.Sleep(settlePause) {
		m, err := readMemory()
		if err != nil {
			return nil, err
		}
		readings = append(readings, m)
		last := readings[max(0, len(readings)-settleReadings):]
		sorted := slices.SortedFunc(slices.Values(last), func(a, b memory) int { return int(a[available] - b[available]) })
		calm := len(last) == settleReadings && sorted[len(sorted)-1][available]-sorted[0][available] <= settleSpread
		if calm || time.Now().After(deadline) {
			return sorted[len(sorted)/2], nil
		}
	}
}

// held is what n sandboxes hold, each, and in which kinds of memory.
func held(before, with, after memory, n int) (each float64, parts []part) {
	gain := func(field string) float64 {
		return (float64(with[field]) - float64(before[field]+after[field])/2) / float64(n)
	}
	for _, kind := range kinds {
		parts = append(parts, part{kind.name, gain(kind.field)})
	}
	return -gain(available), parts
}
