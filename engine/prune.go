package engine

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"aether/sandbox"
)

const (
	// keepDamaged is for how long records that were set aside stay, if nothing else is
	// said: so long that somebody has looked at them.
	keepDamaged = 7 * 24 * time.Hour
	// budgetEvery is how often it is looked whether what nobody needs is over its budget.
	budgetEvery = 10 * time.Minute
)

// PruneRequest is how disk is collected.
type PruneRequest struct {
	// DryRun says what would be removed, and removes nothing.
	DryRun bool `json:"dry_run,omitempty"`
	// Damaged is for how long records that were set aside as damaged stay; zero is a week.
	Damaged time.Duration `json:"damaged_after_ns,omitempty"`
	// Layers is for how long layers of recipes stay that no preparation uses; zero is not
	// at all.
	Layers time.Duration `json:"layers_after_ns,omitempty"`
}

// PruneReport is what was removed, or would be.
type PruneReport struct {
	Removed []sandbox.Collected `json:"removed"`
	Bytes   int64               `json:"bytes"`
	// Kept says what could not be looked at, and why.
	Kept []string `json:"kept,omitempty"`
}

// Prune removes what nothing refers to: images and their layers, disks of machines,
// checkpoints of no record, layers of recipes, records that were damaged long ago, and what
// drivers keep for programs that are dead. Errors: Denied for others than operators;
// Invalid.
func (e *Engine) Prune(ctx context.Context, who Caller, req PruneRequest) (PruneReport, error) {
	if !who.Operator {
		return PruneReport{}, &sandbox.Error{Class: sandbox.Denied, Op: "engine: prune", Reason: "only operators may"}
	}
	if req.Damaged < 0 {
		return PruneReport{}, sandbox.Invalidf("damaged_after_ns", "%v is negative", req.Damaged)
	}
	if req.Layers < 0 {
		return PruneReport{}, sandbox.Invalidf("layers_after_ns", "%v is negative", req.Layers)
	}
	ctx, release, err := e.enterFleet(ctx)
	if err != nil {
		return PruneReport{}, err
	}
	defer release()
	return e.fleet.prune(ctx, req, 0)
}

// prune removes what nothing refers to. So many bytes of layers stay, those that were used
// last.
func (f *fleet) prune(ctx context.Context, req PruneRequest, spare int64) (PruneReport, error) {
	report := PruneReport{Removed: []sandbox.Collected{}}
	report.add(f.collectHomes(ctx, req.DryRun))
	report.add(f.layers.collect(time.Now().Add(-req.Layers), spare, req.DryRun), nil)
	after := req.Damaged
	if after == 0 {
		after = keepDamaged
	}
	report.add(f.dir.CollectDamaged(time.Now().Add(-after), req.DryRun))
	f.collectFromDrivers(ctx, req.DryRun, &report)
	if !req.DryRun {
		if err := f.reap(ctx); err != nil {
			return report, err
		}
	}
	if ctx.Err() != nil {
		return report, fmt.Errorf("engine: prune: %w", context.Cause(ctx))
	}
	return report, nil
}

// add notes what was removed, once, and what could not be looked at.
func (r *PruneReport) add(gone []sandbox.Collected, err error) {
	for _, one := range gone {
		same := func(other sandbox.Collected) bool { return one.Kind == other.Kind && one.Name == other.Name }
		if !slices.ContainsFunc(r.Removed, same) { // drivers share what they keep
			r.Removed, r.Bytes = append(r.Removed, one), r.Bytes+one.Bytes
		}
	}
	if err != nil {
		r.Kept = append(r.Kept, clip(err.Error(), maxDetail))
	}
}

// homeWait is how long sandboxes that are being changed are waited for, all together.
var homeWait = time.Second

// collectHomes removes what is left in the homes of sandboxes besides their checkpoints.
// Those that are being changed are not waited for longer than a moment; the others are
// looked at however long that takes.
func (f *fleet) collectHomes(ctx context.Context, dry bool) (gone []sandbox.Collected, err error) {
	waiting, cancel := context.WithTimeout(ctx, homeWait)
	defer cancel()
	for _, b := range f.index.each() {
		if ctx.Err() != nil {
			return gone, ctx.Err()
		}
		done, free := b.takeFree()
		if !free {
			if done, err = b.take(waiting); err != nil {
				continue
			}
		}
		of, failed := f.records.Collect(b.id, b.copy().Kept, dry)
		done()
		if gone = append(gone, of...); failed != nil {
			return gone, failed
		}
	}
	return gone, nil
}

// collectFromDrivers asks each driver, while no sandbox is begun to be made.
func (f *fleet) collectFromDrivers(ctx context.Context, dry bool, report *PruneReport) {
	f.engine.making.exclude(func(images []string) {
		need := f.needed(images)
		need.DryRun = dry
		for _, driver := range f.drivers.All() {
			if c, ok := driver.(sandbox.Collector); ok {
				report.add(c.Collect(ctx, need))
			}
		}
	})
}

// needed is what sandboxes, snapshots and templates are made of, besides the images of
// those that are being made.
func (f *fleet) needed(making []string) sandbox.Need {
	need := sandbox.Need{Images: append(making, sandbox.HostImage), Running: len(making) > 0}
	for _, b := range f.index.each() {
		if r := b.copy(); r.State != Ended {
			need.Images = append(need.Images, r.Spec.Image)
			need.Running = need.Running || r.State == Running
		}
	}
	need.Images = append(need.Images, f.shelf.images()...)
	if templates := f.catalogue.images(); len(templates) > 0 {
		need.Images, need.Running = append(need.Images, templates...), true
	}
	for _, t := range f.engine.Templates() {
		need.Images, need.Running = append(need.Images, t.recipe.Spec.Image), true
	}
	slices.Sort(need.Images)
	need.Images = slices.Compact(need.Images)
	return need
}

// making are the images of sandboxes that are being made, which no record refers to yet.
type making struct {
	mu     sync.Mutex
	images map[string]int
}

// begin notes one, and waits while what is not needed is removed.
func (m *making) begin(image string) (done func()) {
	m.count(image, 1)
	return func() { m.count(image, -1) }
}

func (m *making) count(image string, by int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.images == nil {
		m.images = map[string]int{}
	}
	if m.images[image] += by; m.images[image] == 0 {
		delete(m.images, image)
	}
}

// exclude runs fn while none is begun to be made, with the images of those that are.
func (m *making) exclude(fn func(images []string)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var images []string
	for image := range m.images {
		images = append(images, image)
	}
	fn(images)
}

// keepBudget prunes, until the engine is closed, when what nobody needs takes more of the
// disk than the configuration allows.
func (f *fleet) keepBudget() {
	for {
		select {
		case <-f.engine.life.Done():
			return
		case <-time.After(budgetEvery):
		}
		if err := f.pruneOverBudget(f.engine.life); err != nil && f.engine.life.Err() == nil {
			f.engine.log.Error("engine: disk that nobody needs could not be collected", "err", err)
		}
	}
}

func (f *fleet) pruneOverBudget(ctx context.Context) error {
	budget := f.rights.config.Load().Host.UnusedDiskBytes
	if budget == nil {
		return nil
	}
	found, err := f.prune(ctx, PruneRequest{DryRun: true}, 0)
	if err != nil || found.Bytes <= *budget {
		return err
	}
	gone, err := f.prune(ctx, PruneRequest{}, *budget)
	f.engine.log.Info("engine: disk that nobody needed was collected", "bytes", gone.Bytes, "budget", *budget)
	return err
}
