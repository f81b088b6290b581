package cell

import (
	"context"

	"aether/image/snapshot"
)

// checkpoints says that snapshots can keep processes on this architecture.
const checkpoints = false

func (i *instance) takeRunning(context.Context, *snapshot.Store) (*snapshot.Draft, error) {
	return nil, i.engine.snapshots.supported()
}

func (i *instance) restoreRunning(context.Context, string, snapshot.Record) error {
	return i.engine.snapshots.supported()
}
