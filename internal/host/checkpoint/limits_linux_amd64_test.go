package checkpoint

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// TestParseLimits reads this program's own limits in both ways.
func TestParseLimits(t *testing.T) {
	text, err := os.ReadFile("/proc/self/limits")
	if err != nil {
		t.Fatal(err)
	}
	var read, asked [16]unix.Rlimit
	if err := parseLimits(string(text), read[:]); err != nil {
		t.Fatal(err)
	}
	for i := range asked {
		if err := unix.Prlimit(0, i, nil, &asked[i]); err != nil {
			t.Fatal(err)
		}
	}
	if read != asked {
		t.Errorf("%+v are read as %+v", asked, read)
	}
	for _, bad := range []string{"", "Limit\n", string(text[:len(text)/2])} {
		if err := parseLimits(bad, read[:]); err == nil {
			t.Errorf("%.40q was taken for limits", bad)
		}
	}
}
