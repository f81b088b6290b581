package sandbox

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

func TestParseBoundary(t *testing.T) {
	for _, b := range append(Boundaries(), AnyBoundary) {
		for _, text := range []string{b.String(), strings.ToUpper(b.String())} {
			if got, err := ParseBoundary(text); err != nil || got != b {
				t.Errorf("ParseBoundary(%q) = %v, %v", text, got, err)
			}
		}
	}
	if got, err := ParseBoundary(""); err != nil || got != AnyBoundary {
		t.Errorf("the empty boundary is %v, %v", got, err)
	}
}

func TestParseBoundaryRefuses(t *testing.T) {
	for _, text := range []string{"vm", "hardware ", "boundary(2)", "2", "process\x00"} {
		_, err := ParseBoundary(text)
		checkInvalid(t, err, "isolation")
		var e *Error
		if errors.As(err, &e) && e.Remedy == "" {
			t.Errorf("%q is refused without saying what is known", text)
		}
	}
}

func TestBoundariesAreOrdered(t *testing.T) {
	last := AnyBoundary
	for _, b := range Boundaries() {
		if b <= last {
			t.Errorf("%v is not stronger than %v", b, last)
		}
		last = b
	}
	if last != HardwareBoundary {
		t.Errorf("the strongest boundary is %v", last)
	}
}

func TestBoundaryJSON(t *testing.T) {
	for _, b := range append(Boundaries(), AnyBoundary) {
		text, err := json.Marshal(b)
		if err != nil || string(text) != `"`+b.String()+`"` {
			t.Fatalf("%v marshals as %s, %v", b, text, err)
		}
		back := Boundary(-1)
		if err := json.Unmarshal(text, &back); err != nil || back != b {
			t.Errorf("%s reads back as %v, %v", text, back, err)
		}
	}
	kept := KernelBoundary
	checkInvalid(t, json.Unmarshal([]byte(`"paper"`), &kept), "isolation")
	if kept != KernelBoundary {
		t.Errorf("a failed read left %v", kept)
	}
}

func TestBoundaryOutOfRange(t *testing.T) {
	for b, want := range map[Boundary]string{-1: "boundary(-1)", HardwareBoundary + 1: "boundary(4)"} {
		if got := b.String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
