package fork

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"aether/lab"
	"aether/lab/conversation"
	"aether/sandbox"
)

// restoreTurns are for systems that restore what they have saved: the program is
// saved once, primed, and every sample is one more sandbox made of that.
func (b *bench) restoreTurns(ctx context.Context, command []string) (turns []lab.Contender) {
	for _, driver := range b.opts.Restorers {
		name := fmt.Sprintf(rowRestore, driver.Info().Name)
		take, err := b.restore(ctx, driver, command)
		if err != nil {
			turns = append(turns, lab.Skip(name, err))
			continue
		}
		turns = append(turns, lab.Contender{Name: name, Take: take})
	}
	return turns
}

// prepareTime bounds the making of a snapshot.
const prepareTime = 2 * time.Minute

func (b *bench) restore(ctx context.Context, driver sandbox.Driver, command []string) (take func(context.Context) (lab.Sample, error), err error) {
	restorer, ok := driver.(sandbox.Restorer)
	if !ok || restorer.RestoreFidelity() != sandbox.Checkpoint {
		return nil, errors.New("it does not restore memory")
	}
	dir, err := os.MkdirTemp("", "aether-restore-")
	if err != nil {
		return nil, err
	}
	b.undo = append(b.undo, func() error { return os.RemoveAll(dir) })
	bounded, cancel := context.WithTimeout(ctx, prepareTime)
	defer cancel()
	pid, err := keep(bounded, driver, command, dir)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) (lab.Sample, error) { return restored(ctx, restorer, dir, pid) }, nil
}

// keep takes a snapshot of the program, and gives its number inside.
func keep(ctx context.Context, driver sandbox.Driver, command []string, dir string) (pid int, err error) {
	instance, err := driver.Create(ctx, sandbox.Spec{})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, instance.Destroy(context.WithoutCancel(ctx))) }()
	c, err := conversation.Start(ctx, instance, command...)
	if err != nil {
		return 0, err
	}
	err = c.Await(ctx, readPrimed)
	if err == nil {
		err = instance.(sandbox.Snapshotter).Snapshot(ctx, dir, sandbox.Checkpoint)
	}
	return c.Pid(), errors.Join(err, c.Close())
}

func restored(ctx context.Context, restorer sandbox.Restorer, dir string, pid int) (_ lab.Sample, err error) {
	w := lab.StartWatch()
	instance, err := restorer.Restore(ctx, dir, sandbox.Checkpoint, sandbox.Spec{})
	w.Lap("restore")
	if err != nil {
		return lab.Sample{}, err
	}
	defer func() { err = errors.Join(err, instance.Destroy(ctx)) }()
	c, err := conversation.Connect(ctx, instance, pid)
	w.Lap("connect")
	if err != nil {
		return lab.Sample{}, err
	}
	err = ask(ctx, c)
	w.Lap("reply")
	return w.Done(), errors.Join(err, c.Close())
}
