package scale

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"time"

	"aether/lab"
	"aether/sandbox"
)

// forksBefore is after how many forks of a source no driver keeps more for the next.
const forksBefore = 3

// workers make and end sandboxes; a host of two cores has no use of more.
const workers = 2

// crowd is sandboxes that live and do nothing, and one that is forked.
type crowd struct {
	opts   Options
	driver sandbox.Driver

	alive   []sandbox.Instance
	source  sandbox.Instance
	noFork  string // why there are no figures of forks
	samples map[int]*samples
	empty   holding // before there was anybody
}

// open makes what is used at every level.
func (c *crowd) open(ctx context.Context) (err error) {
	c.samples = map[int]*samples{}
	// What the first sandbox of a program makes for all later ones is not theirs.
	if _, err := c.life(ctx); err != nil {
		return err
	}
	if c.source, err = c.newSource(ctx); err != nil {
		return err
	}
	// Nor is what a driver keeps of a source that is forked again and again.
	for range forksBefore {
		if c.noFork != "" {
			break
		}
		if _, err := c.fork(ctx); err != nil {
			return err
		}
	}
	c.empty, err = hold(ctx)
	return err
}

func (c *crowd) close() error {
	err := c.shrink(context.Background(), 0)
	if c.source != nil {
		err = errors.Join(err, c.source.Destroy(context.Background()))
	}
	return err
}

// grow has n sandboxes alive. It says how long each of those that it made took.
func (c *crowd) grow(ctx context.Context, n int) (eachUS float64, err error) {
	want := n - len(c.alive)
	start := time.Now()
	made, err := each(want, func() (sandbox.Instance, error) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		return c.driver.Create(ctx, c.opts.spec())
	})
	c.alive = append(c.alive, made...)
	return lab.Micros(time.Since(start)) / float64(max(want, 1)), err
}

// shrink leaves n sandboxes alive.
func (c *crowd) shrink(ctx context.Context, n int) error {
	n = min(n, len(c.alive))
	rest := c.alive[n:]
	c.alive = c.alive[:n:n]
	var mu sync.Mutex
	_, err := each(len(rest), func() (sandbox.Instance, error) {
		mu.Lock()
		next := rest[0]
		rest = rest[1:]
		mu.Unlock()
		return next, next.Destroy(ctx)
	})
	return err
}

// each calls fn n times, by the workers, and gives what it made. Each worker stops
// at its first failure.
func each(n int, fn func() (sandbox.Instance, error)) (made []sandbox.Instance, err error) {
	var mu sync.Mutex
	var work sync.WaitGroup
	for w := range workers {
		work.Go(func() {
			for range n/workers + min(1, max(0, n%workers-w)) {
				one, failed := fn()
				mu.Lock()
				if failed != nil {
					err = errors.Join(err, failed)
					mu.Unlock()
					return
				}
				made = append(made, one)
				mu.Unlock()
			}
		})
	}
	work.Wait()
	return made, err
}

// holding is what the host and this program hold when all are idle, and how busy the host
// is then.
type holding struct {
	used, heap, descriptors, goroutines, busy float64
}

// rest is how long sandboxes do nothing before they count as idle: for five seconds after
// it was made a cell is ready for its first command, and what it had for that is kept for
// others as long.
var rest = 11 * time.Second // tests shorten it

func hold(ctx context.Context) (h holding, err error) {
	busy, err := lab.Busy(ctx, rest)
	if err != nil {
		return h, err
	}
	m, err := lab.Settled(ctx, lab.Memory.Used)
	if err != nil {
		return h, err
	}
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return h, err
	}
	var own runtime.MemStats
	runtime.ReadMemStats(&own) // Settled has collected what is garbage
	return holding{float64(m.Used()), float64(own.HeapAlloc+own.StackInuse) / 1024, float64(len(entries)), float64(runtime.NumGoroutine()), busy}, nil
}

// weigh is what each of the living holds, and how busy the host is beside them.
func (c *crowd) weigh(ctx context.Context) (*Each, error) {
	h, err := hold(ctx)
	if err != nil {
		return nil, fmt.Errorf("what %d hold: %w", len(c.alive), err)
	}
	n := float64(len(c.alive))
	return &Each{HostKiB: (h.used - c.empty.used) / n, ProgramKiB: (h.heap - c.empty.heap) / n,
		Descriptors: (h.descriptors - c.empty.descriptors) / n, Goroutines: (h.goroutines - c.empty.goroutines) / n, HostBusy: h.busy}, nil
}
