package lab

import (
	"fmt"
	"os"
	"runtime"
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
