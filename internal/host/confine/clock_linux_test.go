package confine

import (
	"testing"
	"time"
)

func TestOffsetsAddUp(t *testing.T) {
	for _, c := range []struct {
		text string
		by   time.Duration
		want string
	}{
		{"monotonic           0         0\nboottime            0         0\n", 90 * time.Second, "monotonic 90 0\nboottime 90 0\n"},
		{"monotonic        1000       500\nboottime           10         0\n", time.Second + 7, "monotonic 1001 507\nboottime 11 7\n"},
		{"monotonic          -2 500000000\nboottime            0         0\n", 3 * time.Second, "monotonic 1 500000000\nboottime 3 0\n"},
		{"monotonic      -40000         0\nboottime       -40000         0\n", 39999*time.Second + 500*time.Millisecond, "monotonic -1 500000000\nboottime -1 500000000\n"},
	} {
		own, err := parseOffsets(c.text)
		if err != nil {
			t.Fatal(err)
		}
		if got := own.advance(c.by); got != c.want {
			t.Errorf("%q and %v is %q, want %q", c.text, c.by, got, c.want)
		}
	}
	if _, err := parseOffsets("monotonic x\n"); err == nil {
		t.Error("nonsense is taken")
	}
}
