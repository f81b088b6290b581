package engine

import (
	"context"
	"sync"
	"testing"

	"aether/engine/access"
	"aether/sandbox"
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

// TestATemplateIsCountedWhileItIsRemade: sandboxes that were made of a version end while it is
// made ready again, as after a restart. It is the race detector that looks.
func TestATemplateIsCountedWhileItIsRemade(t *testing.T) {
	f := &fleet{engine: New(Options{}), rights: newRights(access.Config{})}
	key := templateKey{"alice", "work"}
	v := &version{id: "v", key: key, declared: true, grant: f.rights.ledger.Hold("alice", access.Use{})}
	v.record.Tenant, v.record.Name, v.record.Version, v.record.Source = "alice", "work", 1, "sandbox"
	c := &catalogue{fleet: f, versions: map[templateKey][]*version{key: {v}}}
	var counting sync.WaitGroup
	counting.Go(func() {
		c.count(Sandbox{Tenant: "alice", Template: "work@1"}, 0, -1)
	})
	counting.Go(func() {
		if _, err := c.remaking(v)(t.Context(), func(string) {}); sandbox.ClassOf(err) != sandbox.NotFound {
			t.Errorf("one without its memory is made of it: %v", err)
		}
	})
	counting.Wait()
}
