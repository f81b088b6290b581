package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"aether/engine/access"
	"aether/engine/volume"
	"aether/sandbox"
)

// VolumeRequest is what a volume is to be.
type VolumeRequest struct {
	// Name is lower-case letters, digits and dashes, at most 40; a tenant has one volume
	// of a name.
	Name string `json:"name"`
	// Bytes is what it may take of the host's disk, what its file system keeps for
	// itself included. Zero is no bound, for those whose policy allows that.
	Bytes int64 `json:"bytes,omitempty"`
	// Key makes the call idempotent: the same key gives the same answer.
	Key string `json:"-"`
}

// Volume is a directory of a tenant that outlives sandboxes and is shared by those that
// mount it.
type Volume struct {
	Name    string    `json:"name"`
	Tenant  string    `json:"tenant"`
	Bytes   int64     `json:"bytes,omitempty"` // zero is no bound
	Created time.Time `json:"created"`
	// Sandboxes are those that have it mounted, and the paused ones that will.
	Sandboxes []string `json:"sandboxes,omitempty"`
}

// VolumeMount shows a volume of the sandbox's tenant inside.
type VolumeMount struct {
	Name     string `json:"name"`
	Target   string `json:"target"`
	ReadOnly bool   `json:"read_only,omitempty"`
}

// VolumeQuery chooses volumes.
type VolumeQuery struct {
	Tenant string // of operators; others see their own
	// After is the Next of the page before, and Limit the length of a page, 100 at most
	// and by default.
	After string
	Limit int
}

// VolumePage is a part of a list, by name.
type VolumePage struct {
	Volumes []Volume `json:"volumes"`
	// Next is empty on the last page.
	Next string `json:"next,omitempty"`
}

// volumeRecord is a volume as the engine remembers it.
type volumeRecord struct {
	Volume
	ID string `json:"id"`
	// Made says that its contents are there. One without is what a killed program left.
	Made bool `json:"made"`
}

// CreateVolume makes an empty volume. Errors: Invalid; Conflict if the tenant has one of
// the name, or the key was used for another request; Denied for one without a bound;
// Unsupported where it cannot be bounded; Exhausted.
func (e *Engine) CreateVolume(ctx context.Context, who Caller, req VolumeRequest) (Volume, error) {
	if err := req.validate(who); err != nil {
		return Volume{}, err
	}
	ctx, release, err := e.enterFleet(ctx)
	if err != nil {
		return Volume{}, err
	}
	defer release()
	made, err := e.fleet.createVolumeOnce(ctx, who, req)
	if err != nil {
		return Volume{}, fmt.Errorf("engine: create volume %s: %w", req.Name, err)
	}
	return made, nil
}

func (r VolumeRequest) validate(who Caller) error {
	switch {
	case !sandbox.IsName(r.Name, maxName):
		return sandbox.Invalidf("name", "%.80q must be lower-case letters, digits and dashes, at most %d", r.Name, maxName)
	case r.Bytes != 0 && r.Bytes < volume.Least:
		return sandbox.Invalidf("bytes", "%d is less than the least bound, %d", r.Bytes, int64(volume.Least))
	}
	return terms{key: r.Key}.validate(who)
}

func (f *fleet) createVolumeOnce(ctx context.Context, who Caller, req VolumeRequest) (Volume, error) {
	asked := struct {
		Verb string
		VolumeRequest
	}{"create volume", req}
	ids, err := f.answers.once(ctx, who, req.Key, asked, func() ([]string, error) {
		v, err := f.createVolume(ctx, who, req)
		if err != nil {
			return nil, err
		}
		return []string{v.ID}, nil
	})
	if errors.Is(err, errUnkept) {
		return Volume{}, errors.Join(err, f.removeVolume(volumeID{who.Tenant, req.Name}))
	}
	if err != nil {
		return Volume{}, err
	}
	if v := f.volumes.find(volumeID{who.Tenant, req.Name}); v != nil && v.record.ID == ids[0] {
		return f.volumes.view(v), nil
	}
	return Volume{}, &sandbox.Error{Class: sandbox.NotFound, Field: "key", Reason: "the volume that was made with this key is gone"}
}

// createVolume makes a volume, or leaves nothing.
func (f *fleet) createVolume(ctx context.Context, who Caller, req VolumeRequest) (volumeRecord, error) {
	if err := f.rights.permitVolume(who, req.Bytes); err != nil {
		return volumeRecord{}, err
	}
	grant, err := f.rights.take(who, who.Tenant, access.Use{DiskBytes: req.Bytes})
	if err != nil {
		return volumeRecord{}, err
	}
	r := volumeRecord{ID: newID(), Volume: Volume{Name: req.Name, Tenant: who.Tenant, Bytes: req.Bytes, Created: time.Now().Round(0)}}
	if err := f.volumes.reserve(r, grant); err != nil {
		grant.Give()
		return volumeRecord{}, err
	}
	if err := f.makeVolume(ctx, &r); err != nil {
		f.volumes.drop(r.volumeID())
		return volumeRecord{}, errors.Join(err, f.volumes.records.Remove(r.ID))
	}
	f.volumes.made(r)
	f.tell([]Event{r.event(EventVolumeCreated)})
	return r, nil
}

// makeVolume has the record on disk before the contents, so that contents without one are
// never left, and says in it when they are whole.
func (f *fleet) makeVolume(ctx context.Context, r *volumeRecord) error {
	if err := f.volumes.records.Save(r.ID, *r); err != nil {
		return err
	}
	if err := f.volumes.store.Make(ctx, r.ID, f.volumes.records.Home(r.ID), r.Bytes); err != nil {
		return err
	}
	r.Made = true
	return f.volumes.records.Save(r.ID, *r)
}

func (r volumeRecord) event(kind EventKind) Event {
	return Event{Time: time.Now().Round(0), Kind: kind, Tenant: r.Tenant, Detail: map[string]string{"volume": r.Name}}
}

// permitVolume says whether a caller may have a volume of so many bytes. Errors: Denied.
func (r *rights) permitVolume(who Caller, bytes int64) error {
	return r.config.Load().PermitVolume(who, bytes)
}

// GetVolume tells of a volume of a tenant, of the caller's own if that is empty. Errors:
// NotFound, also for what is another tenant's.
func (e *Engine) GetVolume(_ context.Context, who Caller, tenant, name string) (Volume, error) {
	if e.fleet == nil {
		return Volume{}, errNoState
	}
	v, err := e.fleet.volumes.seen(who, tenant, name)
	if err != nil {
		return Volume{}, err
	}
	return e.fleet.volumes.view(v), nil
}

// ListVolumes gives a page of the volumes that the caller may see, by tenant and name.
// Errors: Invalid.
func (e *Engine) ListVolumes(_ context.Context, who Caller, q VolumeQuery) (VolumePage, error) {
	if e.fleet == nil {
		return VolumePage{}, errNoState
	}
	return e.fleet.volumes.page(who, q)
}

// DeleteVolume removes a volume and everything in it. Errors: NotFound; Conflict while a
// sandbox that has not ended uses it.
func (e *Engine) DeleteVolume(ctx context.Context, who Caller, tenant, name string) error {
	_, release, err := e.enterFleet(ctx)
	if err != nil {
		return err
	}
	defer release()
	v, err := e.fleet.volumes.seen(who, tenant, name)
	if err == nil {
		err = e.fleet.removeVolume(v.record.volumeID())
	}
	if err != nil {
		return fmt.Errorf("engine: delete volume %.80s: %w", name, err)
	}
	return nil
}

func (f *fleet) removeVolume(id volumeID) error {
	v, err := f.volumes.leave(id)
	if err != nil {
		return err
	}
	if err := f.volumes.records.Remove(v.record.ID); err != nil {
		f.volumes.stay(v)
		return err
	}
	f.volumes.drop(id)
	f.tell([]Event{v.record.event(EventVolumeRemoved)})
	return nil
}
