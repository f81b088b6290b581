package cell_test

import (
	"fmt"
	"testing"

	"aether/sandbox"
)

// TestForkRunsNothingEarly: no instruction of the source's runs in a child before
// the child is confined, not even on behalf of a signal.
func TestForkRunsNothingEarly(t *testing.T) {
	driver, _ := newDriverAhead(t, ahead)
	for _, every := range []string{"100", "300", "1000"} {
		source := create(t, driver, sandbox.Spec{})
		c := converse(t, source, 0, program(t, source, "fork_early"), every)
		c.hear(t, "primed")
		forked := 0
		for range few(100) {
			children, err := forkWithin(t, source)
			if err != nil {
				if !again(err) {
					t.Errorf("every %s microseconds: %v", every, err)
				}
				continue
			}
			forked++
			err = ask(t.Context(), children[0], c.pid, "", fmt.Sprintln("filter 2, no new privileges 1, capabilities 0"))
			if err != nil {
				t.Errorf("every %s microseconds: %v", every, err)
			}
			destroy(t, children[0])
		}
		t.Logf("every %s microseconds: forked %d times", every, forked)
		c.say(t, "")
		c.hear(t, "filter 2, no new privileges 1, capabilities 0")
	}
}
