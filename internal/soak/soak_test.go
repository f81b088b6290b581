package soak

import (
	"testing"
	"time"
)

func TestShare(t *testing.T) {
	for value, want := range map[string]int{"": 5, "1": 1000, "10": 100, "100000": 1} {
		t.Setenv(Variable, value)
		if got := Count(5, 1000); got != want {
			t.Errorf("%q: %d, want %d", value, got, want)
		}
	}
	t.Setenv(Variable, "10")
	if got := Time(time.Second, time.Minute); got != 6*time.Second {
		t.Errorf("%v", got)
	}
}

func TestNonsenseIsNoSoak(t *testing.T) {
	for _, value := range []string{"0", "-1", "yes", "1.5"} {
		t.Setenv(Variable, value)
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%q is taken", value)
				}
			}()
			Count(1, 1)
		}()
	}
}
