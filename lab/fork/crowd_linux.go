package fork

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"aether/lab"
	"aether/lab/conversation"
	"aether/sandbox"
)

// measureCrowds makes ever more children of one source by one call each.
func (b *bench) measureCrowds(ctx context.Context, r *Report) error {
	python, err := lookPath("python3")
	if err != nil {
		return err
	}
	s, err := b.source(ctx, python, "-c", pythonWithData(64))
	if err != nil {
		return err
	}
	for _, n := range []int{1, 10, 100, 1000} {
		if n > b.opts.Children {
			r.Crowds = append(r.Crowds, Crowd{Children: n, Skipped: fmt.Sprintf("at most %d were asked for", b.opts.Children)})
			continue
		}
		b.say.Say("crowd: %d children", n)
		c, err := s.crowd(ctx, n)
		if err != nil {
			return fmt.Errorf("%d children: %w", n, err)
		}
		r.Crowds = append(r.Crowds, c)
	}
	return nil
}

// crowd compares the memory with children to the middle between that before and
// that after them, so that what else the host gains or loses meanwhile counts half.
func (s source) crowd(ctx context.Context, n int) (c Crowd, err error) {
	before, err := lab.Settled(ctx, lab.Memory.Used)
	if err != nil {
		return c, err
	}
	start := time.Now()
	children, err := s.fork(ctx, n)
	took := time.Since(start)
	if err != nil {
		return c, err
	}
	err = s.answers(ctx, children[n-1])
	var with, after lab.Memory
	if err == nil {
		with, err = lab.Settled(ctx, lab.Memory.Used)
	}
	if err == nil {
		c.NextUS, err = s.next(ctx)
	}
	if err = errors.Join(err, endAll(ctx, children)); err != nil {
		return c, err
	}
	if after, err = lab.Settled(ctx, lab.Memory.Used); err != nil {
		return c, err
	}
	c.Children, c.Seconds = n, took.Seconds()
	c.weigh(before.Used(), with.Used(), after.Used())
	return c, nil
}

// next is the median of some more forks, one after another.
func (s source) next(ctx context.Context) (medianUS float64, err error) {
	const count = 25
	rounds := lab.Rounds{Count: count, Warmup: warmup, Breath: breath, Patience: patience}
	rows, err := rounds.Rows(ctx, []lab.Contender{{Name: "next", Take: s.alone}})
	if err != nil {
		return 0, err
	}
	return rows[0].MedianUS, nil
}

// alone forks the source, and has the child say nothing.
func (s source) alone(ctx context.Context) (lab.Sample, error) {
	w := lab.StartWatch()
	children, err := s.fork(ctx, 1)
	w.Lap("fork")
	if err != nil {
		return lab.Sample{}, err
	}
	return w.Done(), children[0].Destroy(ctx)
}

// answers makes sure that a child is what it is counted as.
func (s source) answers(ctx context.Context, child sandbox.Instance) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	c, err := conversation.Connect(ctx, child, s.pid)
	if err != nil {
		return err
	}
	return errors.Join(ask(ctx, c), c.Close())
}

func endAll(ctx context.Context, children []sandbox.Instance) error {
	errs := make([]error, len(children))
	var ends sync.WaitGroup
	for i, child := range children {
		ends.Go(func() { errs[i] = child.Destroy(ctx) })
	}
	ends.Wait()
	return errors.Join(errs...)
}
