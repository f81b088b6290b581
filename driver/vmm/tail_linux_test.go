package vmm

import (
	"strings"
	"testing"

	"aether/sandbox"
)

// TestConsoleKeepsTheEnd: it is bounded, and says when it was cut.
func TestConsoleKeepsTheEnd(t *testing.T) {
	console := newConsole()
	if _, err := console.Write([]byte("first\x1b[2J\n")); err != nil {
		t.Fatal(err)
	}
	if end, cut := console.end(); string(end) != "first\x1b[2J\n" || cut {
		t.Errorf("%q, %v", end, cut)
	}
	for range 3 {
		if _, err := console.Write([]byte(strings.Repeat("x", sandbox.MaxConsole/2+1))); err != nil {
			t.Fatal(err)
		}
	}
	if end, cut := console.end(); len(end) != sandbox.MaxConsole || strings.Trim(string(end), "x") != "" || !cut {
		t.Errorf("%d bytes, %v", len(end), cut)
	}
}

// TestConsoleNoticesTheHalt, however it comes in.
func TestConsoleNoticesTheHalt(t *testing.T) {
	console := newConsole()
	for _, part := range []string{strings.Repeat("x", sandbox.MaxConsole), "[ 1.0] reboot: Sys", "t", "em halted"} {
		select {
		case <-console.halted:
			t.Fatalf("before %q", part)
		default:
		}
		if _, err := console.Write([]byte(part)); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case <-console.halted:
	default:
		t.Error("it was not noticed")
	}
}
