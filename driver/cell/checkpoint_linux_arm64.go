package cell

import (
	"context"

	"aether/image"
	"aether/image/snapshot"
	"aether/sandbox"
)

// mostKept: snapshots are of files on this architecture.
const mostKept = sandbox.Filesystem

func (i *instance) takeRunning(context.Context, *snapshot.Store) (*snapshot.Draft, error) {
	return nil, supported(sandbox.Checkpoint)
}

func (i *instance) restoreRunning(context.Context, string, snapshot.Record) error {
	return supported(sandbox.Checkpoint)
}

func checkProcesses(context.Context, *snapshots, string, snapshot.Record, image.Root) error {
	return supported(sandbox.Checkpoint)
}
