package local

import (
	"math"
	"os"
	"testing"
	"time"
)

func TestPace(t *testing.T) {
	for left, want := range map[int64]time.Duration{
		math.MinInt64: soonest, -1: soonest, 0: soonest, 1 << 20: soonest,
		64 << 20: 15 * time.Millisecond, 1 << 30: 250 * time.Millisecond, 1 << 40: latest, math.MaxInt64: latest,
	} {
		if got := pace(left); got != want {
			t.Errorf("with %d bytes left: %v, want %v", left, got, want)
		}
	}
}

func TestMemoryIsSeen(t *testing.T) {
	if used, err := inUse(); err != nil || used <= 0 {
		t.Errorf("%d bytes are in use (%v)", used, err)
	}
	if pages := residentPages(os.Getpid()); pages <= 0 {
		t.Errorf("this process has %d pages", pages)
	}
	if pages := residentPages(math.MaxInt32); pages != 0 {
		t.Errorf("a process that does not exist has %d pages", pages)
	}
}
