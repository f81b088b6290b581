package network

import (
	"context"
	"errors"
	"time"

	"aether/lab"
	"aether/lab/lifecycle"
	"aether/sandbox"
)

// refill lets warm cells be made again after a turn.
const refill = 30 * time.Millisecond

// creation measures the making of sandboxes with a network and without.
func (b *bench) creation(ctx context.Context) (_ []lab.Row, err error) {
	warm, endWarm := b.newCells("run-warm", ahead)
	fresh, endFresh := b.newCells("run-fresh", 0)
	bwrap, undo := lifecycle.Bwrap()
	defer func() { err = errors.Join(err, endWarm(), endFresh(), undo()) }()
	bwrap.Name = rowBwrap
	rounds := b.rounds
	rounds.Breath = refill
	return rounds.Rows(ctx, []lab.Contender{creates(rowWarm, warm, sandbox.Network{}), creates(rowWarmEgress, warm, b.egress()),
		creates(rowFresh, fresh, sandbox.Network{}), creates(rowFreshEgress, fresh, b.egress()), rounds.Try(ctx, bwrap)})
}

func creates(name string, driver sandbox.Driver, n sandbox.Network) lab.Contender {
	return lab.Contender{Name: name, Take: func(ctx context.Context) (lab.Sample, error) {
		watch := lab.StartWatch()
		instance, err := driver.Create(ctx, sandbox.Spec{Network: n})
		watch.First("create")
		if err != nil {
			return lab.Sample{}, err
		}
		err = instance.Destroy(ctx)
		watch.Lap("destroy")
		return watch.Sample, err
	}}
}
