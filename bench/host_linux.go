package main

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"
)

func readHost() (h host, err error) {
	h = host{Arch: runtime.GOARCH, Cores: runtime.NumCPU(), User: "root", StartedUnix: time.Now().Unix()}
	if uid := os.Geteuid(); uid != 0 {
		h.User = fmt.Sprintf("user %d", uid)
	}
	release, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return h, err
	}
	h.Kernel = strings.TrimSpace(string(release))
	m, err := readMemory()
	if err != nil {
		return h, err
	}
	h.MemoryMiB = m["MemTotal"] >> 10
	h.LoadBefore, err = load()
	return h, err
}

// load is the load average of the last minute.
func load() (float64, error) {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 0, err
	}
	first, _, _ := strings.Cut(string(text), " ")
	return strconv.ParseFloat(first, 64)
}
