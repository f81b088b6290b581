package sysinfo

import (
	"errors"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Memory is how many bytes of memory the host has, and how many of them nobody
// uses, not even as a cache.
func Memory() (total, free int64, err error) {
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return 0, 0, os.NewSyscallError("sysinfo", err)
	}
	return int64(info.Totalram) * int64(info.Unit), int64(info.Freeram) * int64(info.Unit), nil
}

// Available is how many bytes of memory could be had without swapping: what nobody
// uses, and what of the caches can be given up.
func Available() (int64, error) {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "MemAvailable:"); ok {
			kilobytes, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 53)
			return kilobytes << 10, err
		}
	}
	return 0, errors.New("sysinfo: /proc/meminfo does not say how much memory is available")
}

// HalfOfMemory is the memory of a sandbox that states no limit: enough for any
// honest command, and the host outlives a hostile one. It is zero, which is no
// limit, where the kernel does not say how much there is.
func HalfOfMemory() int64 {
	total, _, err := Memory()
	if err != nil {
		return 0
	}
	return total / 2
}

// Release is the kernel's, as uname -r prints it.
func Release() (string, error) {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return "", os.NewSyscallError("uname", err)
	}
	return unix.ByteSliceToString(name.Release[:]), nil
}

// Sync has everything that was written go to the disks.
func Sync() { unix.Sync() }
