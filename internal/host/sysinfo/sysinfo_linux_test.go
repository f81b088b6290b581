package sysinfo

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestMemory compares with what the kernel says elsewhere.
func TestMemory(t *testing.T) {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		t.Fatal(err)
	}
	var kilobytes int64
	if _, err := fmt.Sscanf(string(text), "MemTotal: %d kB", &kilobytes); err != nil {
		t.Fatal(err)
	}
	total, free, err := Memory()
	if err != nil || total != kilobytes<<10 || free <= 0 || free >= total {
		t.Errorf("%d of %d bytes are free, %v; /proc/meminfo says %d kB", free, total, err, kilobytes)
	}
	if half := HalfOfMemory(); half != total/2 {
		t.Errorf("half of it is %d", half)
	}
}

// TestAvailable: caches that can be given up are part of it, and it is no more than
// there is.
func TestAvailable(t *testing.T) {
	total, free, err := Memory()
	if err != nil {
		t.Fatal(err)
	}
	available, err := Available()
	if err != nil || available < free/2 || available > total {
		t.Errorf("%d bytes are available, %v; %d of %d are free", available, err, free, total)
	}
}

func TestRelease(t *testing.T) {
	text, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := Release(); err != nil || got != strings.TrimSpace(string(text)) {
		t.Errorf("%q, %v, want %q", got, err, text)
	}
}
