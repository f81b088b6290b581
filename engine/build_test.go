package engine

import (
	"context"
	"log/slog"
	"sync"
	"testing"

	"aether/engine/access"
	"aether/engine/state"
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

// openTestCatalogue opens one in a directory of the test's, with a version of a template that
// is there; before is called before every change of the directory.
func openTestCatalogue(t *testing.T, before func(*catalogue, *version)) (*catalogue, *version) {
	t.Helper()
	v := &version{id: "v", key: templateKey{"alice", "work"}, declared: true}
	v.record.Tenant, v.record.Name, v.record.Version = "alice", "work", 1
	var c *catalogue
	dir, err := state.OpenWatched(t.TempDir(), slog.New(slog.DiscardHandler), func() error {
		if before != nil && c != nil {
			before(c, v)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := dir.Close(); err != nil {
			t.Error(err)
		}
	})
	made, err := openCatalogue(&fleet{engine: New(Options{}), dir: dir, sweeper: newSweeper(), rights: newRights(access.Config{})})
	if err == nil {
		err = made.records.Save(v.id, v.record)
	}
	if err != nil {
		t.Fatal(err)
	}
	made.versions[v.key] = []*version{v}
	c = made
	return c, v
}

// TestNothingIsLeftOfARemovedTemplate: nobody who waits for the same version writes it down
// again, and what was begun to be made of it meanwhile has ended too.
func TestNothingIsLeftOfARemovedTemplate(t *testing.T) {
	var b *build
	c, v := openTestCatalogue(t, func(c *catalogue, v *version) {
		if b != nil {
			return
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		b = c.start(context.Background(), v, "", nil, func(ctx context.Context, _ func(string)) (*Template, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		})
	})
	if err := c.remove(t.Context(), v); err != nil {
		t.Fatal(err)
	}
	select {
	case <-b.done:
	default:
		t.Error("it is still being made")
		b.cancel(nil)
	}
	if err := c.join(v, declaration{tags: []string{"later"}}); sandbox.ClassOf(err) != sandbox.NotFound {
		t.Errorf("who waited for it too: %v", err)
	}
	if all, err := c.records.All(); err != nil || len(all) > 0 {
		t.Errorf("%+v, %v", all, err)
	}
}
