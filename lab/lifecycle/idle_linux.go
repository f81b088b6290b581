package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"time"

	"aether/lab"
)

// idleTime bounds how long a slow system may take to have its sandboxes alive;
// it is then measured with as many as there are.
const idleTime = 8 * time.Second

// measureIdle is the host's memory that living sandboxes hold.
func (f *field) measureIdle(ctx context.Context) ([]Footprint, error) {
	var rows []Footprint
	empty, err := lab.Settled(ctx, lab.Memory.Available)
	if err != nil {
		return nil, err
	}
	for _, e := range f.distinct() {
		f.say.Say("idle memory: up to %d of %s", f.opts.Idle, e.name)
		var row Footprint
		if row, empty, err = f.idle(ctx, e, empty); err != nil {
			return nil, fmt.Errorf("%s: idle: %w", e.name, err)
		}
		rows = append(rows, row)
	}
	lab.Compare(rows, peers, func(p *Footprint) (string, float64, *lab.Ratios) { return p.Name, p.EachKiB, &p.Of })
	return rows, nil
}

// idle compares the memory with sandboxes to the middle between that before and
// that after them, so that what else the host gains or loses meanwhile counts
// half.
func (f *field) idle(ctx context.Context, e entry, before lab.Memory) (row Footprint, after lab.Memory, err error) {
	alive, err := crowd(ctx, e.contender, f.opts.Idle)
	var with lab.Memory
	if err == nil {
		with, err = lab.Settled(ctx, lab.Memory.Available)
	}
	for _, sandbox := range alive {
		err = errors.Join(err, sandbox.end())
	}
	if err != nil {
		return row, nil, err
	}
	if after, err = lab.Settled(ctx, lab.Memory.Available); err != nil {
		return row, nil, err
	}
	row = Footprint{Name: e.name, Live: len(alive)}
	row.EachKiB, row.Parts = lab.Held(before, with, after, len(alive))
	return row, after, nil
}

// crowd makes sandboxes until there are n or the time is over.
func crowd(ctx context.Context, c contender, n int) (alive []living, err error) {
	deadline := time.Now().Add(idleTime)
	for len(alive) < n && (len(alive) == 0 || time.Now().Before(deadline)) {
		if ctx.Err() != nil {
			return alive, ctx.Err()
		}
		sandbox, err := c.live(ctx)
		if err != nil {
			return alive, fmt.Errorf("sandbox %d: %w", len(alive)+1, err)
		}
		alive = append(alive, sandbox)
	}
	return alive, nil
}
