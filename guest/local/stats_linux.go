package local

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"aether/sandbox"
)

// tick is the unit of /proc/stat, which the kernel's interface fixes.
const tick = 10 * time.Millisecond

// Stats says what this kernel uses as a whole: inside a machine, that is the
// sandbox.
func (b *Backend) Stats(context.Context) (sandbox.Stats, error) {
	memory, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return sandbox.Stats{}, err
	}
	used, err := memoryUsed(memory)
	if err != nil {
		return sandbox.Stats{}, err
	}
	stat, err := os.ReadFile("/proc/stat")
	if err != nil {
		return sandbox.Stats{}, err
	}
	cpu, err := cpuTime(stat)
	if err != nil {
		return sandbox.Stats{}, err
	}
	return sandbox.Stats{MemoryBytes: &used, CPUTime: &cpu}, nil
}

func memoryUsed(meminfo []byte) (int64, error) {
	kib := map[string]int64{}
	for scan := bufio.NewScanner(bytes.NewReader(meminfo)); scan.Scan(); {
		name, rest, _ := strings.Cut(scan.Text(), ":")
		value, _, _ := strings.Cut(strings.TrimSpace(rest), " ")
		if n, err := strconv.ParseInt(value, 10, 64); err == nil {
			kib[name] = n
		}
	}
	if kib["MemTotal"] == 0 {
		return 0, fmt.Errorf("/proc/meminfo says no MemTotal")
	}
	return (kib["MemTotal"] - kib["MemAvailable"]) << 10, nil
}

// cpuTime adds up all but idle and waiting for disks.
func cpuTime(stat []byte) (time.Duration, error) {
	line, _, _ := strings.Cut(string(stat), "\n")
	fields := strings.Fields(line)
	if len(fields) < 9 || fields[0] != "cpu" {
		return 0, fmt.Errorf("/proc/stat starts with %.40q", line)
	}
	var total int64
	for _, i := range []int{1, 2, 3, 6, 7, 8} {
		n, err := strconv.ParseInt(fields[i], 10, 64)
		if err != nil {
			return 0, fmt.Errorf("/proc/stat: %w", err)
		}
		total += n
	}
	return time.Duration(total) * tick, nil
}
