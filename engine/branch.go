package engine

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"aether/engine/access"
	"aether/sandbox"
)

// maxFork bounds the children of one call.
const maxFork = 100

// Fork makes children of a sandbox that go on from where it is: all of them or none. A
// paused one that may be resumed by use is. They belong to the tenant of the source.
// Errors: Invalid; NotFound; Conflict; Unsupported if the driver cannot fork.
func (e *Engine) Fork(ctx context.Context, who Caller, id string, req ForkRequest) ([]Sandbox, error) {
	if err := req.validate(); err != nil {
		return nil, err
	}
	ctx, release, err := e.enterFleet(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	source, err := e.fleet.index.find(who, id)
	if err != nil {
		return nil, err
	}
	asked := struct {
		Verb, ID string
		ForkRequest
	}{"fork", id, req}
	children, err := e.fleet.once(ctx, who, req.Key, asked, func() ([]string, error) { return e.fleet.fork(ctx, who, source, req) })
	if err != nil {
		return nil, fmt.Errorf("engine: fork %s: %w", id, err)
	}
	return children, nil
}

func (r ForkRequest) validate() error {
	if r.Count < 0 || r.Count > maxFork {
		return sandbox.Invalidf("count", "%d is not between 1 and %d", r.Count, maxFork)
	}
	if r.Network != nil {
		if err := (sandbox.Spec{Network: *r.Network}).Validate(); err != nil {
			return err
		}
		if !r.Network.Mode.Filtered() {
			return sandbox.Invalidf("network.mode", "that of a fork can be egress, or is its source's")
		}
	}
	return terms{r.Metadata, r.Timeout, r.Then, r.Key}.validate(Caller{Tenant: "any"})
}

func (f *fleet) fork(ctx context.Context, who Caller, source *box, req ForkRequest) ([]string, error) {
	done, err := source.take(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	if err := f.wake(ctx, who, source); err != nil {
		return nil, err
	}
	forker, ok := source.instance().(sandbox.Forker)
	if !ok {
		return nil, &sandbox.Error{Class: sandbox.Unsupported, Reason: source.copy().Driver + " cannot fork sandboxes"}
	}
	if req.Network != nil {
		if _, err := f.rights.permit(who, sandbox.Spec{Network: *req.Network}); err != nil {
			return nil, err
		}
	}
	records, specs := f.children(source.copy(), req)
	boxes, err := f.rights.grant(who, source.tenant, source.copy().Spec, len(records), func(grants []*access.Grant) ([]*box, error) {
		return f.withVolumes(records, func([]sandbox.Mount) ([]*box, error) { // the source's
			var instances []sandbox.Instance
			start := time.Now()
			err := soon(ctx, func() (err error) {
				instances, err = forker.Fork(f.revealing(ctx, source.tenant), specs)
				return err
			})
			if err != nil {
				return nil, err
			}
			for i := range records {
				records[i].Took = time.Since(start)
			}
			return f.adopt(ctx, source.driver, records, instances, grants)
		})
	})
	if err != nil {
		return nil, err
	}
	ids := make([]string, len(boxes))
	for i, b := range boxes {
		f.engine.tree.branch(Node{ID: b.id, Parent: source.id, Template: source.templateName(), Born: b.view().Created, Took: b.view().Took, Batch: len(boxes)})
		if b.view().State == Ended { // by itself, before the tree knew of it
			f.engine.tree.end(b.id, time.Now())
		}
		ids[i] = b.id
	}
	forked := Event{Kind: EventForked, Detail: map[string]string{"children": strings.Join(ids, " ")}}
	tellClosed(forked.Detail, source.instance())
	if err := source.change(func(*record) {}, forked); err != nil {
		f.engine.log.Error("engine: that a sandbox was forked could not be written", "sandbox", source.id, "err", err)
	}
	return ids, nil
}

// children are the records of children to be, and what their instances are asked to be.
func (f *fleet) children(source record, req ForkRequest) (records []record, specs []sandbox.Spec) {
	for range cmp.Or(req.Count, 1) {
		r := f.newRecord(newID(), source.Tenant, terms{req.Metadata, req.Timeout, req.Then, ""})
		r.Driver, r.Why, r.Spec, r.Template, r.Parent = source.Driver, "its source is there", source.Spec, source.Template, source.ID
		r.Keep, r.AutoResume, r.Asked, r.Resident = req.Keep, req.AutoResume, source.Asked, source.Resident
		r.Volumes, r.Restored = source.Volumes, source.ofCheckpoint()
		if req.Network != nil {
			r.Spec.Network = *req.Network
		}
		records, specs = append(records, r), append(specs, r.childSpec(r.ID))
	}
	return records, specs
}
