package cgroup

import (
	"context"
	"errors"
	"sync"
	"time"

	"aether/sandbox"
)

// Removing a group costs more the more of them there are: the kernel walks the
// memory controller's lists of every mounted file system, with the lock held that all
// groups share. Beside thousands of sandboxes that is most of what it costs to make and
// end another. So a group that has ended is kept for the next owner, and removed when
// none has come for a while.

// keepFor is how long a group is kept. A few hundred kilobytes go with each.
var keepFor = time.Second // tests change it

const (
	// rest is how many times as long as the removal of one group took the next is put
	// off: everybody else's groups wait meanwhile.
	rest = 4
	// mostLeft is how much memory may still be charged to a group, such as files
	// that its last owner read first: it counts against the next one's limit.
	mostLeft = 1 << 20
)

// Claim gives a group without limits: one that was kept, which shows nothing of its
// last owner, or a new one of that name. Errors: as Create.
func (o *Owner) Claim(name string) (*Group, error) {
	for {
		g := o.kept.take()
		if g == nil {
			return o.Create(name)
		}
		clean, err := g.rebase()
		if err == nil && clean {
			return g, nil
		}
		if err := errors.Join(err, g.Remove(context.Background())); err != nil {
			return nil, err
		}
	}
}

// Retire ends the use of the group. Where the kernel tells that nobody is left in it,
// its directories are kept for Claim; else it is Remove.
func (g *Group) Retire(ctx context.Context) error {
	next, err := g.renewed(ctx)
	if err != nil {
		return g.wrap("retire", err)
	}
	if next == nil {
		return g.Remove(ctx)
	}
	if !g.owner.kept.put(next) {
		return next.Remove(ctx)
	}
	return nil
}

// renewed is the group for its next owner, if it can have one. This one is gone then.
func (g *Group) renewed(ctx context.Context) (*Group, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	at, ok := g.owner.control()
	if !ok || g.gone || g.parent != nil || !g.owner.host.trees[at].unified || g.grown() {
		return nil, nil
	}
	if err := errors.Join(g.closeAttach(), g.liftRates()); err != nil {
		return nil, err
	}
	if err := g.nodes[at].empty(ctx, g.divided); err != nil {
		return nil, err // whoever is still in there keeps his limits
	}
	next := &Group{owner: g.owner, name: g.name, nodes: g.nodes, applied: g.applied}
	if err := next.Set(Limits{}); err != nil {
		return nil, err
	}
	g.gone = true
	return next, nil
}

// grown says that limits have added directories to those of a new group.
func (g *Group) grown() bool {
	for i, n := range g.nodes {
		if n.name != "" && g.owner.spares(i) {
			return true
		}
	}
	return false
}

// empty removes the groups below a version 2 group, if it was divided, waits until
// nobody is in it, and lets those go on who come. It speaks for the other trees too, for
// a process is born in this one, enters them later, and leaves none.
func (n node) empty(ctx context.Context, divided bool) error {
	if divided {
		if err := n.removeBelow(ctx); err != nil {
			return err
		}
	}
	if err := n.await(ctx, "populated", 0); err != nil {
		return n.stillBusy(err)
	}
	return n.thaw()
}

// figures are what a group has counted for the owners before.
type figures struct {
	memory, peak int64
	cpu          time.Duration
	events       Events
}

// rebase has the group count from nothing, and says whether little enough is left. It
// reads no more than own needs: it is a part of every cell's making.
func (g *Group) rebase() (clean bool, err error) {
	var memory, peak *int64
	var err1, err2 error
	if g.unified(Memory) {
		peak, err1 = g.figure(Memory, "", "memory.peak")
	} else if n, ok := g.with(Memory); ok {
		err1 = n.write("memory.max_usage_in_bytes", zero)
	}
	memory, err2 = g.figure(Memory, "memory.usage_in_bytes", "memory.current")
	used, err3 := g.cpuTime()
	events, err4 := g.Events()
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return false, g.wrap("rebase", err)
	}
	g.before = figures{memory: value(memory), peak: value(peak), cpu: value(used), events: events}
	return g.before.memory <= mostLeft, nil
}

func value[T int64 | time.Duration](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

// own takes what was counted for the owners before off the figures.
func (f figures) own(stats sandbox.Stats, resets bool) sandbox.Stats {
	if f == (figures{}) {
		return stats
	}
	if above := more(stats.MemoryBytes, f.memory); above != nil {
		stats.MemoryBytes = above
	} // else what was left has been freed, and the most of what is there is its own
	if peak := value(stats.MemoryPeakBytes); resets || peak > f.peak {
		stats.MemoryPeakBytes = more(stats.MemoryPeakBytes, f.memory)
	} else {
		stats.MemoryPeakBytes = nil // it is below another's, and nobody knows by how much
	}
	if stats.CPUTime != nil {
		*stats.CPUTime -= f.cpu
	}
	return stats
}

// more is by how much a figure exceeds what was left, or nil where nobody knows: what
// was left may have been freed since.
func more(p *int64, left int64) *int64 {
	if p == nil || *p <= left {
		return nil
	}
	above := *p - left
	return &above
}

// kept are groups that wait for their next owner, the longest there first: what is
// freed late has been freed from that one.
type kept struct {
	mu     sync.Mutex
	list   []waiting
	closed bool
	timer  *time.Timer
	busy   sync.WaitGroup // while groups are removed
}

type waiting struct {
	*Group
	since time.Time
}

func (k *kept) take() *Group {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.list) == 0 {
		return nil
	}
	return k.first()
}

// first takes the first of the list. The lock is held.
func (k *kept) first() *Group {
	g := k.list[0].Group
	k.list[0] = waiting{}
	k.list = k.list[1:]
	return g
}

// put says false when the program is ending.
func (k *kept) put(g *Group) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		return false
	}
	k.list = append(k.list, waiting{g, time.Now()})
	if k.timer == nil {
		k.timer = time.AfterFunc(keepFor, k.removeUnwanted)
	}
	return true
}

// removeUnwanted removes one group that nobody came for. What cannot be removed is left
// to the end of the program, which says so.
func (k *kept) removeUnwanted() {
	g := k.unwanted()
	if g == nil {
		return
	}
	defer k.busy.Done()
	start := time.Now()
	_ = g.Remove(context.Background())
	k.again(rest * time.Since(start))
}

// unwanted is the next to be removed, or none for now.
func (k *kept) unwanted() *Group {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed || len(k.list) == 0 {
		k.timer = nil
		return nil
	}
	if left := keepFor - time.Since(k.list[0].since); left > 0 {
		k.timer = time.AfterFunc(left, k.removeUnwanted)
		return nil
	}
	k.busy.Add(1)
	return k.first()
}

// again has the next one be removed after a pause.
func (k *kept) again(pause time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.closed {
		k.timer = time.AfterFunc(pause, k.removeUnwanted)
	}
}

// close gives the groups that are kept to the owner, who removes all.
func (k *kept) close() (left []waiting) {
	k.mu.Lock()
	left, k.closed, k.list = k.list, true, nil
	if k.timer != nil {
		k.timer.Stop()
	}
	k.mu.Unlock()
	k.busy.Wait()
	return left
}
