package engine

import (
	"errors"
	"path"
	"slices"

	"aether/sandbox"
)

// useVolumes notes that a sandbox uses its volumes from now on, which cannot be deleted
// until it has ended. Errors: NotFound.
func (f *fleet) useVolumes(r record) error {
	v := f.volumes
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, m := range r.Volumes {
		if entry := v.all[volumeID{r.Tenant, m.Name}]; entry == nil || !entry.ready {
			return noVolume("volumes", m.Name)
		}
	}
	for _, m := range r.Volumes {
		v.all[volumeID{r.Tenant, m.Name}].users[r.ID] = true
	}
	return nil
}

// leaveVolumes notes that a sandbox has ended, or was never made.
func (f *fleet) leaveVolumes(r record) error {
	err := f.unmountVolumes(r)
	v := f.volumes
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, m := range r.Volumes {
		if entry := v.all[volumeID{r.Tenant, m.Name}]; entry != nil {
			delete(entry.users, r.ID)
		}
	}
	return err
}

// mountVolumes gives what the instance of a sandbox is to be shown: what its Spec says,
// and its volumes, whose places only the engine knows. unmountVolumes must follow.
func (f *fleet) mountVolumes(r record) ([]sandbox.Mount, error) {
	mounts := slices.Clone(r.Spec.Mounts)
	for _, m := range r.Volumes {
		entry := f.volumes.find(volumeID{r.Tenant, m.Name})
		if entry == nil {
			return nil, errors.Join(noVolume("volumes", m.Name), f.unmountVolumes(r))
		}
		dir, err := f.volumes.store.Hold(entry.record.ID, f.volumes.records.Home(entry.record.ID), r.ID)
		if err != nil {
			return nil, errors.Join(err, f.unmountVolumes(r))
		}
		mounts = append(mounts, sandbox.Mount{Source: dir, Target: m.Target, Writable: !m.ReadOnly})
	}
	return mounts, nil
}

// unmountVolumes says that no instance of a sandbox is shown its volumes any more.
func (f *fleet) unmountVolumes(r record) (err error) {
	for _, m := range r.Volumes {
		if entry := f.volumes.find(volumeID{r.Tenant, m.Name}); entry != nil {
			err = errors.Join(err, f.volumes.store.Release(entry.record.ID, r.ID))
		}
	}
	return err
}

// letGoOfVolumes is unmountVolumes where nobody waits for the answer.
func (f *fleet) letGoOfVolumes(r record) {
	if err := f.unmountVolumes(r); err != nil {
		f.engine.log.Error("engine: the volumes of a sandbox could not be let go", "sandbox", r.ID, "err", err)
	}
}

// withVolumes has do make instances of sandboxes that are to be and have the same
// volumes, with what they are shown. If that fails, they use none.
func (f *fleet) withVolumes(records []record, do func([]sandbox.Mount) ([]*box, error)) (boxes []*box, err error) {
	var mounts []sandbox.Mount
	for _, r := range records {
		if err == nil {
			err = f.useVolumes(r)
		}
		if err == nil {
			mounts, err = f.mountVolumes(r)
		}
	}
	if err == nil {
		boxes, err = do(mounts)
	}
	if err != nil {
		for _, r := range records {
			err = errors.Join(err, f.leaveVolumes(r))
		}
	}
	return boxes, err
}

// otherVolumes are those of a snapshot, but for targets at which others are asked for, and
// those.
func otherVolumes(kept, asked []VolumeMount) []VolumeMount {
	all := slices.Clone(asked)
	for _, m := range kept {
		at := func(other VolumeMount) bool { return path.Clean(other.Target) == path.Clean(m.Target) }
		if !slices.ContainsFunc(asked, at) {
			all = append(all, m)
		}
	}
	return all
}
