package engine

import (
	"cmp"
	"errors"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"aether/engine/access"
	"aether/engine/state"
	"aether/engine/volume"
	"aether/sandbox"
)

// volumeID is what names a volume.
type volumeID struct{ tenant, name string }

func (r volumeRecord) volumeID() volumeID { return volumeID{r.Tenant, r.Name} }

func (id volumeID) compare(other volumeID) int {
	return cmp.Or(strings.Compare(id.tenant, other.tenant), strings.Compare(id.name, other.name))
}

// volumeEntry is a volume and who uses it.
type volumeEntry struct {
	record volumeRecord
	grant  *access.Grant
	// ready is false while it is being made or removed: nobody can use it then.
	ready bool
	users map[string]bool // sandboxes that have not ended
}

// volumes are those of an engine.
type volumes struct {
	records *state.Kind[volumeRecord]
	store   *volume.Store

	mu     sync.Mutex
	all    map[volumeID]*volumeEntry
	sorted []volumeID
}

// openVolumes finds the volumes of a state directory, and removes what was being made
// when the last engine was killed.
func (f *fleet) openVolumes(stateDir string) (err error) {
	v := &volumes{all: map[volumeID]*volumeEntry{}}
	if v.records, err = state.NewKind[volumeRecord](f.dir, "volumes", 1, nil); err != nil {
		return err
	}
	if v.store, err = volume.Open(filepath.Join(stateDir, "mounted")); err != nil {
		return err
	}
	records, err := v.records.All()
	if err != nil {
		return err
	}
	for id, r := range records {
		if !r.Made {
			err = errors.Join(err, v.records.Remove(id))
			continue
		}
		err = errors.Join(err, v.reserve(r, f.rights.ledger.Hold(r.Tenant, access.Use{DiskBytes: r.Bytes})))
		v.made(r)
	}
	f.volumes = v
	return err
}

// reserve takes the name of a volume that is to be made. Errors: Conflict.
func (v *volumes) reserve(r volumeRecord, grant *access.Grant) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	id := r.volumeID()
	if v.all[id] != nil {
		return &sandbox.Error{Class: sandbox.Conflict, Field: "name", Reason: "there is a volume of this name", Remedy: "delete it, or choose another name"}
	}
	v.all[id] = &volumeEntry{record: r, grant: grant, users: map[string]bool{}}
	at, _ := slices.BinarySearchFunc(v.sorted, id, volumeID.compare)
	v.sorted = slices.Insert(v.sorted, at, id)
	return nil
}

// made has a volume be used.
func (v *volumes) made(r volumeRecord) {
	v.mu.Lock()
	defer v.mu.Unlock()
	entry := v.all[r.volumeID()]
	entry.record, entry.ready = r, true
}

// leave has nobody begin to use a volume that is to be removed. Errors: NotFound;
// Conflict.
func (v *volumes) leave(id volumeID) (*volumeEntry, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	entry := v.all[id]
	switch {
	case entry == nil || !entry.ready:
		return nil, noVolume("name", id.name)
	case len(entry.users) > 0:
		return nil, &sandbox.Error{Class: sandbox.Conflict, Field: "name", Remedy: "destroy them first",
			Reason: "sandboxes use it: " + clip(strings.Join(slices.Sorted(maps.Keys(entry.users)), " "), 200)}
	}
	entry.ready = false
	return entry, nil
}

// stay undoes leave.
func (v *volumes) stay(entry *volumeEntry) {
	v.mu.Lock()
	defer v.mu.Unlock()
	entry.ready = true
}

// drop forgets a volume, and gives back what it takes of its tenant's quota.
func (v *volumes) drop(id volumeID) {
	v.mu.Lock()
	defer v.mu.Unlock()
	entry := v.all[id]
	delete(v.all, id)
	if at, found := slices.BinarySearchFunc(v.sorted, id, volumeID.compare); found {
		v.sorted = slices.Delete(v.sorted, at, at+1)
	}
	entry.grant.Give()
}

func (v *volumes) find(id volumeID) *volumeEntry {
	v.mu.Lock()
	defer v.mu.Unlock()
	if entry := v.all[id]; entry != nil && entry.ready {
		return entry
	}
	return nil
}

// seen finds a volume that the caller may know of. Errors: NotFound.
func (v *volumes) seen(who Caller, tenant, name string) (*volumeEntry, error) {
	id := volumeID{cmp.Or(tenant, who.Tenant), name}
	if entry := v.find(id); entry != nil && sees(who, id.tenant) {
		return entry, nil
	}
	return nil, noVolume("name", name)
}

func noVolume(field, name string) error {
	return &sandbox.Error{Class: sandbox.NotFound, Op: "engine", Field: field, Reason: "there is no volume " + clip(name, 80)}
}

func (v *volumes) view(entry *volumeEntry) Volume {
	v.mu.Lock()
	defer v.mu.Unlock()
	return entry.view()
}

// view is what callers are told; v.mu is held.
func (e *volumeEntry) view() Volume {
	shown := e.record.Volume
	shown.Sandboxes = slices.Sorted(maps.Keys(e.users))
	return shown
}

func (v *volumes) page(who Caller, q VolumeQuery) (VolumePage, error) {
	begin, err := q.begin()
	if err != nil {
		return VolumePage{}, err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	at, found := slices.BinarySearchFunc(v.sorted, begin, volumeID.compare)
	if found {
		at++ // it was the last of the page before
	}
	page, last := VolumePage{Volumes: []Volume{}}, volumeID{}
	for _, id := range v.sorted[at:] {
		if !v.all[id].ready || !sees(who, id.tenant) || q.Tenant != "" && q.Tenant != id.tenant {
			continue
		}
		if len(page.Volumes) == min(cmp.Or(q.Limit, maxPage), maxPage) {
			page.Next = last.tenant + "/" + last.name
			break
		}
		page.Volumes, last = append(page.Volumes, v.all[id].view()), id
	}
	return page, nil
}

// begin is after which volume a page begins.
func (q VolumeQuery) begin() (volumeID, error) {
	if q.Limit < 0 {
		return volumeID{}, sandbox.Invalidf("limit", "%d is negative", q.Limit)
	}
	if q.After == "" {
		return volumeID{tenant: q.Tenant}, nil
	}
	tenant, name, ok := strings.Cut(q.After, "/")
	if !ok {
		return volumeID{}, sandbox.Invalidf("after", "%.40q is not the next of a page", q.After)
	}
	return volumeID{tenant, name}, nil
}

// validVolumes checks what a request says of volumes.
func validVolumes(mounts []VolumeMount) error {
	targets := map[string]bool{}
	for _, m := range mounts {
		if err := (sandbox.Spec{Mounts: []sandbox.Mount{{Source: "/", Target: m.Target}}}).Validate(); err != nil {
			return sandbox.Invalidf("volumes", "the target of %.80q: %v", m.Name, err)
		}
		if target := path.Clean(m.Target); targets[target] {
			return sandbox.Invalidf("volumes", "two are mounted on %.80q", target)
		} else {
			targets[target] = true
		}
	}
	return nil
}
