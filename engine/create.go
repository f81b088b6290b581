package engine

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"aether/engine/access"
	"aether/sandbox"
)

// idLetters are those of ids; 32 of them, so that a random byte chooses evenly.
const idLetters = "0123456789abcdefghjkmnpqrstvwxyz"

// newID mints an id of 100 random bits, which nobody guesses.
func newID() string {
	id := make([]byte, 20)
	_, _ = rand.Read(id) // which never fails
	for i, b := range id {
		id[i] = idLetters[b%32]
	}
	return string(id)
}

// Create makes a sandbox, with the driver that is named or the best that holds what the
// Spec needs. Errors: Invalid with the field; NotFound for a template or snapshot;
// Conflict for a key that was used for another request; and those of the driver.
func (e *Engine) Create(ctx context.Context, who Caller, req CreateRequest) (Sandbox, error) {
	if err := req.validate(who); err != nil {
		return Sandbox{}, err
	}
	ctx, release, err := e.enterFleet(ctx)
	if err != nil {
		return Sandbox{}, err
	}
	defer release()
	asked := struct {
		Verb string
		CreateRequest
	}{"create", req}
	made, err := e.fleet.once(ctx, who, req.Key, asked, func() ([]string, error) {
		b, err := e.fleet.create(ctx, who, req)
		if err != nil {
			return nil, err
		}
		return []string{b.id}, nil
	})
	if err != nil {
		return Sandbox{}, fmt.Errorf("engine: create: %w", err)
	}
	return made[0], nil
}

func (r CreateRequest) validate(who Caller) error {
	if r.Spec.ID != "" {
		return sandbox.Invalidf("spec.id", "ids are the engine's: leave it empty")
	}
	if err := r.Spec.Validate(); err != nil {
		return err
	}
	if r.Template != "" {
		if r.Snapshot != "" {
			return sandbox.Invalidf("snapshot", "a sandbox is made of a template or of a snapshot, and of one of them")
		}
		if err := fixed(r.Spec); err != nil {
			return err
		}
	}
	if err := validVolumes(r.Volumes); err != nil {
		return err
	}
	if err := r.validateSource(); err != nil {
		return err
	}
	return terms{r.Metadata, r.Timeout, r.Then, r.Key}.validate(who)
}

// terms are what is said of a sandbox besides what it is.
type terms struct {
	metadata map[string]string
	timeout  time.Duration
	then     Then
	key      string
}

func (t terms) validate(who Caller) error {
	switch {
	case !sandbox.IsName(who.Tenant, maxName):
		return sandbox.Invalidf("tenant", "%.80q must be lower-case letters, digits and dashes, at most %d", who.Tenant, maxName)
	case t.timeout < 0:
		return sandbox.Invalidf("timeout", "%v is negative", t.timeout)
	case !slices.Contains([]Then{"", ThenKill, ThenPause, ThenPauseFiles}, t.then):
		return sandbox.Invalidf("then", "%.40q is not one of kill, pause, pause_files", string(t.then))
	case len(t.key) > maxKeySize:
		return sandbox.Invalidf("key", "it is over %d bytes", maxKeySize)
	}
	return sandbox.Spec{Metadata: t.metadata}.Validate()
}

// once makes sandboxes unless that was done with this key before, and gives them as
// they are now.
func (f *fleet) once(ctx context.Context, who Caller, key string, asked any, do func() ([]string, error)) ([]Sandbox, error) {
	ids, err := f.answers.once(ctx, who, key, asked, do)
	if errors.Is(err, errUnkept) {
		return nil, errors.Join(err, f.destroyUnanswered(ctx, ids))
	}
	if err != nil {
		return nil, err
	}
	list := make([]Sandbox, len(ids))
	for i, id := range ids {
		list[i] = f.answer(who, id)
	}
	return list, nil
}

// answer is a sandbox as it is now, also if it ended so long ago that it is forgotten.
func (f *fleet) answer(who Caller, id string) Sandbox {
	b, err := f.index.find(Caller{Operator: true}, id)
	if err != nil {
		return Sandbox{ID: id, Tenant: who.Tenant, State: Ended, Exit: &sandbox.Exit{Cause: sandbox.Lost, Detail: "it has ended and is forgotten"}}
	}
	return b.view()
}

// destroyUnanswered ends sandboxes that nobody was told of.
func (f *fleet) destroyUnanswered(ctx context.Context, ids []string) (err error) {
	for _, id := range ids {
		if b, failed := f.index.find(Caller{Operator: true}, id); failed == nil {
			err = errors.Join(err, f.destroyNow(ctx, b))
		}
	}
	return err
}

func (f *fleet) create(ctx context.Context, who Caller, req CreateRequest) (*box, error) {
	if req.Template != "" {
		return f.createForked(ctx, who, req)
	}
	if req.Snapshot != "" {
		return f.createFrom(ctx, who, req)
	}
	spec, err := f.rights.permit(who, req.Spec)
	if err != nil {
		return nil, err
	}
	list, err := f.drivers.Candidates(req.Driver, spec.Isolation)
	if err != nil {
		return nil, err
	}
	list.before = f.uses
	defer f.engine.making.begin(spec.Image)()
	boxes, err := f.rights.grant(who, who.Tenant, spec, 1, func(grants []*access.Grant) ([]*box, error) {
		planned := record{Sandbox: Sandbox{ID: newID(), Tenant: who.Tenant, Spec: spec, Volumes: req.Volumes}}
		return f.withVolumes([]record{planned}, func(mounts []sandbox.Mount) ([]*box, error) {
			asked := spec
			asked.ID, asked.Mounts = planned.ID, mounts
			choice, err := list.Create(f.acting(ctx, who.Tenant, !who.Operator), asked)
			if err != nil {
				return nil, err
			}
			r := f.newRecord(asked.ID, who.Tenant, terms{req.Metadata, req.Timeout, req.Then, ""})
			r.Driver, r.Why, r.Spec, r.Volumes = choice.Driver.Info().Name, choice.Why, spec, slices.Clone(req.Volumes)
			r.Keep, r.AutoResume, r.Asked = req.Keep, req.AutoResume, !who.Operator
			return f.adopt(ctx, choice.Driver, []record{r}, []sandbox.Instance{choice.Instance}, grants)
		})
	})
	if err != nil {
		return nil, err
	}
	return boxes[0], nil
}

// newRecord is that of a sandbox that runs from now on.
func (f *fleet) newRecord(id, tenant string, t terms) record {
	r := record{Number: f.index.number(), Timeout: t.timeout, Instances: 1}
	r.ID, r.Tenant, r.State, r.Created = id, tenant, Running, time.Now().Round(0)
	r.Metadata, r.Expires, r.Then = maps.Clone(t.metadata), expiry(t.timeout), t.then
	if r.Then == "" && t.timeout > 0 {
		r.Then = ThenKill
	}
	return r
}

// adopt begins to hold sandboxes that were made: all of them, or none is left.
func (f *fleet) adopt(ctx context.Context, driver sandbox.Driver, records []record, instances []sandbox.Instance, grants []*access.Grant) ([]*box, error) {
	boxes := make([]*box, len(records))
	for i, r := range records {
		if reporter, ok := instances[i].(sandbox.RenewalReporter); ok {
			r.Renewed = reporter.Renewed()
		}
		boxes[i] = f.newBox(r)
		boxes[i].grant = grants[i]
		boxes[i].turn <- struct{}{} // until it is served
		detail := map[string]string{"driver": r.Driver}
		if r.Parent != "" {
			detail["parent"] = r.Parent
		}
		tellClosed(detail, instances[i])
		if err := boxes[i].change(func(*record) {}, Event{Kind: EventCreated, Detail: detail}, Event{Kind: EventStarted}); err != nil {
			return nil, errors.Join(err, f.abandon(boxes[:i]), destroyInstances(ctx, instances))
		}
	}
	for i, b := range boxes {
		f.hold(b)
		b.serve(driver, instances[i])
		f.renewMade(ctx, b)
		<-b.turn
	}
	return boxes, nil
}

// hold begins to list a new box, and counts it for its template.
func (f *fleet) hold(b *box) {
	f.index.add(b)
	f.catalogue.count(b.view(), 1, 1)
}

// abandon ends boxes that were noted beside one that could not be.
func (f *fleet) abandon(boxes []*box) (err error) {
	for _, b := range boxes {
		f.hold(b)
		err = errors.Join(err, f.end(b, sandbox.Exit{Cause: sandbox.Destroyed, Detail: "not all of its siblings could be made"}))
		<-b.turn
	}
	return err
}
