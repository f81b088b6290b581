package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"aether/engine"
	"aether/lab"
	"aether/rest"
	"aether/sandbox"
)

const (
	warmup   = 3
	breath   = 5 * time.Millisecond
	refill   = 30 * time.Millisecond
	patience = time.Minute
	// settle is how long a daemon rests before its memory is looked at.
	settle = 2 * time.Second
	// page is the length of the pages that are compared.
	page = 100
	// atOnce is how many idle sandboxes are made at once.
	atOnce = 8
)

// bench is one run, with a place of its own for everything.
type bench struct {
	opts   Options
	rounds lab.Rounds
	undo   []func() error
	engine *engine.Engine
	server *server
	ways   []way
	docker lab.Contender
}

// Measure runs the whole benchmark.
func Measure(ctx context.Context, opts Options, say *lab.Progress) (r Report, err error) {
	b := &bench{opts: opts, rounds: lab.Rounds{Count: opts.Rounds, Warmup: warmup, Breath: breath, Patience: patience}}
	defer func() { err = errors.Join(err, b.close()) }()
	say.Say("the daemon: preparing")
	if err := b.open(ctx); err != nil {
		return r, err
	}
	say.Say("the daemon: %d rounds of %d ways", opts.Rounds, len(b.ways))
	if r.Exec, err = b.execs(ctx); err != nil {
		return r, err
	}
	if r.Create, err = b.rounds.Rows(ctx, contenders(b.ways, way.creates)); err != nil {
		return r, err
	}
	if r.Life, err = b.rounds.Rows(ctx, append(contenders(b.ways, way.lives), b.docker)); err != nil {
		return r, err
	}
	if r.Claim, err = b.claims(ctx); err != nil {
		return r, err
	}
	say.Say("the daemon: what agents do")
	if r.Undo, err = b.undoes(ctx); err != nil {
		return r, err
	}
	if r.Step, err = b.steps(ctx); err != nil {
		return r, err
	}
	say.Say("the daemon: the API of E2B")
	if r.E2B, err = b.e2bRows(ctx); err != nil {
		return r, err
	}
	if r.Code, err = b.codeRows(ctx); err != nil {
		return r, err
	}
	say.Say("the daemon: %d idle sandboxes", opts.Idle)
	if err := b.crowd(ctx, &r); err != nil {
		return r, err
	}
	r.complete()
	return r, nil
}

func (b *bench) close() (err error) {
	for i := len(b.undo) - 1; i >= 0; i-- {
		err = errors.Join(err, b.undo[i]())
	}
	return err
}

// open starts everybody who takes part.
func (b *bench) open(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "aether-lab-")
	if err != nil {
		return err
	}
	b.undo = append(b.undo, func() error { return os.RemoveAll(dir) })
	// Ids of sandboxes have to reach what is in it.
	if err := os.Chmod(dir, 0o755); err != nil {
		return err
	}
	e, err := engine.Open(engine.Options{State: filepath.Join(dir, "engine"), Drivers: []sandbox.Maker{b.opts.Cells}})
	if err != nil {
		return err
	}
	b.undo = append(b.undo, func() error { return e.Close(context.Background()) })
	b.engine = e
	if b.server, err = serve(ctx, b.opts.Program, dir); err != nil {
		return err
	}
	b.undo = append(b.undo, b.server.stop)
	b.ways = []way{inProcess(e), overDoor(rowUnix, b.server.unix), overDoor(rowTCP, b.server.tcp)}
	return b.openDocker(ctx)
}

func (b *bench) openDocker(ctx context.Context) error {
	d, undo, err := newDocker(ctx)
	if err != nil {
		b.docker = lab.Skip(rowDocker, err)
		return nil
	}
	b.undo = append(b.undo, undo)
	b.docker = b.rounds.Try(ctx, d.way().lives())
	return nil
}

func contenders(ways []way, of func(way) lab.Contender) []lab.Contender {
	list := make([]lab.Contender, len(ways))
	for i, w := range ways {
		list[i] = of(w)
	}
	return list
}

// execs measures commands in sandboxes that live.
func (b *bench) execs(ctx context.Context) (_ []lab.Row, err error) {
	var list []lab.Contender
	agent, end, err := overMCP(ctx, b.opts.Program, b.server)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, end()) }()
	for _, w := range append(b.ways, streamed(b.server.unix), agent) {
		c, undo, made := w.execs(ctx)
		if made != nil {
			return nil, made
		}
		defer func() { err = errors.Join(err, undo()) }()
		list = append(list, c)
	}
	return b.rounds.Rows(ctx, append(list, b.empty(rowUnixEmpty, b.server.unix), b.empty(rowTCPEmpty, b.server.tcp)))
}

// empty measures the way to the daemon and back: an answer of 204 that nobody worked for.
func (b *bench) empty(name string, c *rest.Client) lab.Contender {
	return lab.Contender{Name: name, Take: func(ctx context.Context) (lab.Sample, error) {
		watch := lab.StartWatch()
		err := c.Health(ctx)
		watch.First("answer")
		return watch.Sample, err
	}}
}

// claims measures pools, with a rest in which they are filled again.
func (b *bench) claims(ctx context.Context) ([]lab.Row, error) {
	var list []lab.Contender
	for _, w := range b.ways {
		c, err := w.claims(ctx)
		if sandbox.ClassOf(err) == sandbox.Unsupported {
			c, err = lab.Skip(w.name, err), nil
		}
		if err != nil {
			return nil, err
		}
		list = append(list, c)
	}
	rounds := b.rounds
	rounds.Breath = refill
	return rounds.Rows(ctx, list)
}

// crowd has a daemon hold sandboxes that do nothing: its memory, and its pages when there
// are as many as one has and when there are all of them.
func (b *bench) crowd(ctx context.Context, r *Report) (err error) {
	time.Sleep(settle)
	r.Memory.Idle = b.opts.Idle
	if r.Memory.EmptyKiB, err = b.server.memory(); err != nil {
		return err
	}
	held := 0
	for _, count := range []int{min(page, b.opts.Idle), b.opts.Idle} {
		if err := hold(ctx, b.server.unix, count-held); err != nil {
			return err
		}
		held = count
		rows, err := b.rounds.Rows(ctx, []lab.Contender{b.page(fmt.Sprintf("%d of %d", page, count))})
		if err != nil {
			return err
		}
		r.Pages = append(r.Pages, rows...)
	}
	time.Sleep(settle)
	r.Memory.IdleKiB, err = b.server.memory()
	return err
}

func (b *bench) page(name string) lab.Contender {
	return lab.Contender{Name: name, Take: func(ctx context.Context) (lab.Sample, error) {
		watch := lab.StartWatch()
		_, err := b.server.unix.List(ctx, engine.Query{States: []engine.State{engine.Running}, Limit: page})
		watch.First("page")
		return watch.Sample, err
	}}
}

// hold makes sandboxes, several at once.
func hold(ctx context.Context, c *rest.Client, count int) error {
	var (
		work sync.WaitGroup
		mu   sync.Mutex
		errs []error
	)
	room := make(chan struct{}, atOnce)
	for range count {
		room <- struct{}{}
		work.Go(func() {
			defer func() { <-room }()
			if _, err := c.Create(ctx, engine.CreateRequest{}); err != nil {
				mu.Lock()
				defer mu.Unlock()
				errs = append(errs, err)
			}
		})
	}
	work.Wait()
	return errors.Join(errs...)
}
