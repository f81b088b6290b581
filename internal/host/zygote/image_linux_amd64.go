package zygote

import (
	"errors"
	"fmt"
	"time"

	"aether/internal/host/checkpoint"
	"aether/internal/host/confine"
	"aether/internal/host/inroot"
	"aether/internal/host/spawn"
)

// Encode writes the checkpoint, all that it takes to Decode it. The cell may have
// gone on, or be gone; stamps are of the files that it had then, and ahead how far its
// clocks are. Errors: Conflict for what cannot be kept.
func (t *Tree) Encode(create checkpoint.Files, stamps map[string]checkpoint.Stamp, ahead time.Duration) (*checkpoint.Image, error) {
	image, err := t.Checkpoint.Encode(create, stamps, ahead, func(place int) int { return t.at(place).process.Pid() })
	if err != nil {
		return nil, fmt.Errorf("zygote: encode a checkpoint: %w", err)
	}
	return image, nil
}

// Decode makes a tree of an image, to be restored in this cell, in which nothing has
// run yet. Its zygotes have no memory: what is restored takes its own from files.
// Errors: Invalid for what Encode did not write, Conflict for processes that cannot
// go on on this machine or with the files of this cell.
func Decode(h *confine.Host, c *confine.Cell, image *checkpoint.Image, open checkpoint.Files) (*Tree, error) {
	dir, err := c.Root()
	if err != nil {
		return nil, err
	}
	root := inroot.New(dir)
	defer root.Close()
	t := &Tree{host: h}
	if t.Checkpoint, err = image.Decode(open, root, c.Identity(), c.Clock()); err == nil {
		err = t.startOnFiles()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("zygote: decode a checkpoint: %w", err), t.Close())
	}
	return t, nil
}

// startOnFiles starts zygotes that have nothing of their processes.
func (t *Tree) startOnFiles() (err error) {
	if t.keeper, err = spawn.NewThread(func() error { return nil }); err != nil {
		return err
	}
	// One script makes a whole tree of processes, memory and all.
	const large = 4
	at, err := t.Checkpoint.FreeAddress(large * scriptRoom)
	if err != nil {
		return err
	}
	for i, p := range t.Checkpoint.Processes {
		if p.Parent != nil {
			continue
		}
		r, err := newRunner(t.host, t.keeper, at, large)
		if err != nil {
			return err
		}
		z := &Zygote{runner: r, place: i, phase: empty}
		advance(phases, &z.phase, onFiles)
		t.zygotes = append(t.zygotes, z)
	}
	return nil
}
