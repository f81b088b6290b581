package engine

import (
	"context"
	"testing"
)

// TestTheFirstStepIsTold: who begins a build is told of every step, however late it comes to
// wait for it.
func TestTheFirstStepIsTold(t *testing.T) {
	c := &catalogue{fleet: &fleet{engine: New(Options{})}}
	steps := make(chan string, 1)
	notify := func(step string) { steps <- step }
	stopped := context.Canceled
	c.mu.Lock()
	b := c.start(t.Context(), &version{declared: true}, "", &notify, func(_ context.Context, tell func(string)) (*Template, error) {
		tell(StepCreate)
		return nil, stopped
	})
	c.mu.Unlock()
	<-b.done
	if err := b.wait(t.Context(), &notify); err != stopped {
		t.Errorf("the build gave %v", err)
	}
	select {
	case step := <-steps:
		if step != StepCreate {
			t.Errorf("%q is told", step)
		}
	default:
		t.Error("nothing is told")
	}
}
