package lab

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// ReadHost describes this host.
func ReadHost() (h Host, err error) {
	h = Host{Arch: runtime.GOARCH, Cores: runtime.NumCPU(), User: "root", StartedUnix: time.Now().Unix()}
	if uid := os.Geteuid(); uid != 0 {
		h.User = fmt.Sprintf("user %d", uid)
	}
	release, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return h, err
	}
	h.Kernel = strings.TrimSpace(string(release))
	info, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return h, err
	}
	h.CPU, h.Virtualized = parseCPU(string(info))
	m, err := ReadMemory()
	if err != nil {
		return h, err
	}
	h.MemoryMiB = m["MemTotal"] >> 10
	h.LoadBefore, err = Load()
	return h, err
}

// Load is the load average of the last minute.
func Load() (float64, error) {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 0, err
	}
	first, _, _ := strings.Cut(string(text), " ")
	return strconv.ParseFloat(first, 64)
}

// parseCPU finds the name of the processors, and the flag by which a hypervisor tells
// its guests that there is one. Kernels of other architectures than amd64 print neither.
func parseCPU(text string) (name string, virtualized bool) {
	for line := range strings.Lines(text) {
		field, value, _ := strings.Cut(line, ":")
		switch strings.TrimSpace(field) {
		case "model name":
			name = strings.TrimSpace(value)
		case "flags":
			return name, slices.Contains(strings.Fields(value), "hypervisor")
		}
	}
	return name, false
}
