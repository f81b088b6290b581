package spawn

import (
	"os"
	"testing"
)

// TestFilesAreAboveWhatScriptsUse: a script puts files at low numbers before it
// takes these, so one that had such a number would be another by then.
func TestFilesAreAboveWhatScriptsUse(t *testing.T) {
	low, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	if low.Fd() >= firstFd {
		t.Skipf("the lowest free descriptor is %d", low.Fd())
	}
	low.Close()
	shared, err := NewShared(64, 4096, 1<<44)
	if err != nil {
		t.Fatal(err)
	}
	defer shared.Close()
	stub, err := Stub()
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range []*os.File{shared.File(), stub} {
		if file.Fd() < firstFd {
			t.Errorf("%s is descriptor %d", file.Name(), file.Fd())
		}
	}
}
