package engine

import (
	"context"
	"errors"
	"time"

	"aether/sandbox"
)

// keep writes the files of a sandbox as a layer, which is held for the caller. The record
// is written when everything else is on disk. below is the layer that the sandbox was made
// of, or nil. Errors: Unsupported if the driver cannot; Exhausted; those of the driver.
func (l *layers) keep(ctx context.Context, who Caller, keeper sandbox.Snapshotter, r layerRecord, below *layer) (_ *layer, err error) {
	r.ID, r.Created = newID(), time.Now().Round(0)
	r.Used = r.Created
	dir, err := l.begin(r.ID)
	if err != nil {
		return nil, err
	}
	if below != nil {
		r.Below = below.record.ID
	}
	one := &layer{record: r, noted: r.Used}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.undo(one))
		}
	}()
	if err := soon(ctx, func() error { return keeper.Snapshot(ctx, dir, sandbox.Filesystem) }); err != nil {
		return nil, err
	}
	if one.record.Size, err = sizeBeyond(dir, l.below(below)); err != nil {
		return nil, err
	}
	if one.grant, err = l.fleet.rights.take(who, r.Tenant, one.record.use()); err != nil {
		return nil, err
	}
	if err := l.records.Save(r.ID, one.record); err != nil {
		return nil, err
	}
	l.add(one)
	return one, nil
}

// below is where the files of the layer below are, if there is one.
func (l *layers) below(one *layer) string {
	if one == nil {
		return ""
	}
	return l.dir(one)
}

// undo leaves nothing of a layer that could not be kept.
func (l *layers) undo(one *layer) error {
	if one.grant != nil {
		one.grant.Give()
	}
	l.fleet.sweeper.note(one.record.Driver)
	return l.records.Remove(one.record.ID)
}
