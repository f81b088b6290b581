package main

import (
	"context"
	"errors"
	"sync"

	"aether/host/cgroup"
	"aether/host/confine"
)

// ahead is how many blanks are kept ready, where any are.
const ahead = 16

// blank is what a cell is made of: namespaces and a cgroup of its own.
type blank struct {
	*confine.Blank
	group  *cgroup.Group
	attach cgroup.Attach
}

func (c *cells) newBlank() (b blank, err error) {
	if b.group, b.attach, err = c.groups.make(); err != nil {
		return b, err
	}
	if b.Blank, err = c.base.Blank(confine.Config{Group: b.attach}); err != nil {
		return b, errors.Join(err, remove(b.group))
	}
	return b, nil
}

func (b blank) limit() error {
	if b.group == nil {
		return nil
	}
	return b.group.Set(cgroup.Limits{Memory: memoryLimit, Pids: processLimit})
}

func (b blank) discard() error { return errors.Join(b.Discard(), remove(b.group)) }

// blanks makes blanks ahead, in the background, as the driver does.
type blanks struct {
	ready chan blank
	fail  chan error
	stop  chan struct{}
	done  sync.WaitGroup
	left  error // what the last one, which nobody took, could not be rid of
}

func newBlanks(c *cells, ahead int) *blanks {
	b := &blanks{ready: make(chan blank, ahead-1), fail: make(chan error), stop: make(chan struct{})}
	b.done.Go(func() { b.run(c) })
	return b
}

func (b *blanks) run(c *cells) {
	for {
		made, err := c.newBlank()
		if err != nil {
			select {
			case b.fail <- err:
				continue
			case <-b.stop:
				return
			}
		}
		select {
		case b.ready <- made:
		case <-b.stop:
			b.left = made.discard()
			return
		}
	}
}

// take gives a blank to one cell.
func (b *blanks) take(ctx context.Context) (blank, error) {
	select {
	case made := <-b.ready:
		return made, nil
	case err := <-b.fail:
		return blank{}, err
	case <-ctx.Done():
		return blank{}, ctx.Err()
	}
}

func (b *blanks) close() error {
	close(b.stop)
	b.done.Wait()
	err := b.left
	for {
		select {
		case made := <-b.ready:
			err = errors.Join(err, made.discard())
		default:
			return err
		}
	}
}
