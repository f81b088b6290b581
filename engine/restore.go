package engine

import (
	"cmp"
	"context"
	"path/filepath"
	"reflect"

	"aether/engine/access"
	"aether/sandbox"
)

// validateSource checks what a request says of the snapshot that it is to be made of.
func (r CreateRequest) validateSource() error {
	if r.Snapshot == "" {
		if r.Fidelity != "" {
			return sandbox.Invalidf("fidelity", "it is that of a snapshot, and none is named")
		}
		return nil
	}
	for field, given := range map[string]any{"spec.image": r.Spec.Image, "spec.mounts": r.Spec.Mounts, "spec.command": r.Spec.Command} {
		if !reflect.ValueOf(given).IsZero() {
			return sandbox.Invalidf(field, "a sandbox that is made of a snapshot has that of the snapshot")
		}
	}
	return checkFidelity(r.Fidelity)
}

// createFrom makes a sandbox of a snapshot. Errors: NotFound, also for another tenant's;
// Invalid for another driver than the snapshot's; those of create and of the driver.
func (f *fleet) createFrom(ctx context.Context, who Caller, req CreateRequest) (*box, error) {
	s, release, err := f.shelf.use(who, req.Snapshot)
	if err != nil {
		return nil, err
	}
	defer release()
	spec, err := f.rights.permit(who, s.record.specFor(req.Spec))
	if err != nil {
		return nil, err
	}
	if req.Driver != "" && req.Driver != s.record.Driver {
		return nil, sandbox.Invalidf("driver", "the snapshot is of %s, and of no other driver", s.record.Driver)
	}
	if _, err := f.drivers.Candidates(s.record.Driver, spec.Isolation); err != nil {
		return nil, err
	}
	boxes, err := f.rights.grant(who, who.Tenant, spec, 1, func(grants []*access.Grant) ([]*box, error) {
		r := f.newRecord(newID(), who.Tenant, terms{req.Metadata, req.Timeout, req.Then, ""})
		r.Driver, r.Why, r.Spec, r.Keep, r.AutoResume = s.record.Driver, "its snapshot is of it", spec, req.Keep, req.AutoResume
		r.Snapshot, r.Template, r.Asked = s.record.ID, s.record.Template, !who.Operator
		r.Volumes = otherVolumes(s.record.Volumes, req.Volumes)
		return f.withVolumes([]record{r}, func([]sandbox.Mount) ([]*box, error) {
			driver, instance, err := f.restore(ctx, r, r.ID, f.stateDir(s), cmp.Or(req.Fidelity, s.record.Fidelity))
			if err != nil {
				return nil, err
			}
			return f.adopt(ctx, driver, []record{r}, []sandbox.Instance{instance}, grants)
		})
	})
	if err != nil {
		return nil, err
	}
	return boxes[0], nil
}

// stateDir is what the driver has written of a snapshot.
func (f *fleet) stateDir(s *stored) string {
	return filepath.Join(f.snapshots.Home(s.record.ID), stateName)
}

// specFor is what a sandbox of the snapshot is: what was asked for, and else what the
// source of the snapshot was.
func (s Snapshot) specFor(asked sandbox.Spec) sandbox.Spec {
	spec := s.Spec
	spec.Isolation = max(spec.Isolation, asked.Isolation)
	overlay(&spec.Limits, asked.Limits)
	if asked.Network.Mode != sandbox.NoNetwork {
		spec.Network = asked.Network
	}
	if asked.Metadata != nil {
		spec.Metadata = asked.Metadata
	}
	spec.Timeouts.Lifetime = cmp.Or(asked.Timeouts.Lifetime, spec.Timeouts.Lifetime)
	return spec
}

// overlay sets those limits that are asked for.
func overlay(limits *sandbox.Limits, asked sandbox.Limits) {
	to, from := reflect.ValueOf(limits).Elem(), reflect.ValueOf(asked)
	for i := range from.NumField() {
		if value := from.Field(i); !value.IsZero() {
			to.Field(i).Set(value)
		}
	}
}
