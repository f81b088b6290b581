package vmm

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"aether/driver/lifetime"
	"aether/internal/host/blocklayer"
	"aether/internal/host/cgroup"
)

// A monitor that is handed everything is started, in its jail and its cgroup, and has confined
// itself before it is handed anything. So it can be before there is a machine for it: once a
// driver has made one, a few wait for the next. Each is of one machine at most, as a user that
// nobody else is.

const (
	// leastWarm are kept while machines are made now and then, and mostWarm of those that
	// were needed at once, as by a fork, for burstTime.
	leastWarm = 2
	mostWarm  = 8
	burstTime = 5 * time.Second
	// calmTime is how long after the last machine came up others are started in the place of
	// those that were taken: who made it has the host's processors until then.
	calmTime = 100 * time.Millisecond
	// idleTime is after how long without a machine none is kept.
	idleTime = time.Minute
	// tellAgain is how often it is logged that none can be started.
	tellAgain = time.Minute
)

// warmMonitor is a monitor that has no machine yet.
type warmMonitor struct {
	place   *wires
	group   *cgroup.Group // nil where there are no cgroups
	process *process
	monitor Monitor
	of      programFile
}

// startMonitor starts a monitor. What there is of one that did not come up is given too, for its end.
func (e *engine) startMonitor(ctx context.Context) (s *warmMonitor, err error) {
	s = &warmMonitor{}
	if s.of, err = fileOf(e.program.path); err != nil {
		return s, err
	}
	l := invocation{argv: []string{e.program.path}, env: e.system.Environment, attach: cgroup.Attach{Into: -1}}
	if s.group, err = e.newGroup(); err != nil {
		return s, err
	}
	if s.group != nil {
		if err := s.group.Set(e.waitingLimits()); err != nil {
			return s, err
		}
		if l.attach, err = s.group.Attach(true); err != nil {
			return s, err
		}
	}
	if s.place, err = newWires(true); err != nil {
		s.place = nil // it is closed
		return s, err
	}
	s.place.invoke(e.system, Hardware{}, &l)
	s.process, err = l.start()
	s.place.begun()
	if err != nil {
		return s, err
	}
	s.monitor = e.system.Monitor(s.place.connect)
	return s, s.greet(ctx)
}

// greet wants the monitor to answer.
func (s *warmMonitor) greet(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, monitorTime)
	defer cancel()
	return s.monitor.Hello(ctx)
}

// waitingLimits are of every kind that a machine may have, so that its monitor is in every
// hierarchy that holds one: what is added later holds for who comes later.
func (e *engine) waitingLimits() (limits cgroup.Limits) {
	held := e.hierarchy.Holds()
	if held&cgroup.Memory != 0 {
		limits.Memory = overhead
	}
	if held&cgroup.CPU != 0 {
		limits.CPUs = 1
	}
	if held&cgroup.Pids != 0 {
		limits.Pids = maxThreads
	}
	return limits
}

// end leaves nothing of it.
func (s *warmMonitor) end(ctx context.Context) error {
	m := &machine{id: "a monitor that waits", group: s.group, process: s.process, monitor: s.monitor}
	if s.place != nil { // and no place that holds none
		m.place = s.place
	}
	return m.release(ctx)
}

// takeWarm gives the machine a monitor: one that waits, or else a new one.
func (m *machine) takeWarm(ctx context.Context, fill func(workplace) error) error {
	s, err := m.engine.takeMonitor(ctx)
	m.group, m.process = s.group, s.process
	if s.place != nil {
		m.place = s.place
	}
	if s.monitor != nil {
		m.monitor, m.line = s.monitor, s.place.line()
	}
	if err != nil {
		return err
	}
	if err := m.limit(); err != nil {
		return err
	}
	return fill(m.place)
}

// longestFile bounds what a monitor writes, in case that a guest takes it over: a state, which
// is the memory and a little more, or the machine's disk.
func (m *machine) longestFile() int64 {
	const head = 2 * mebibyte
	return max(m.hardware.MemoryMiB*mebibyte+head, blocklayer.Length(m.writable.bytes()))
}

// takeMonitor gives a monitor that answers, and nobody else has had.
func (e *engine) takeMonitor(ctx context.Context) (*warmMonitor, error) {
	now, err := fileOf(e.program.path)
	if err != nil {
		return &warmMonitor{}, err
	}
	for s := e.warm.next(); s != nil; s = e.warm.next() {
		if s.of == now && s.greet(ctx) == nil {
			return s, nil
		}
		e.dismiss(s)
		if ctx.Err() != nil {
			return &warmMonitor{}, ctx.Err()
		}
	}
	return e.startMonitor(ctx)
}

// dismiss ends a monitor that nobody has use for. Nobody waits for it.
func (e *engine) dismiss(s *warmMonitor) {
	ctx, cancel := context.WithTimeout(context.Background(), lifetime.CleanupTime)
	defer cancel()
	if err := s.end(ctx); err != nil {
		cmp.Or(e.opts.Logger, slog.Default()).Error(e.system.Name+": a monitor that waited could not be ended", "err", err)
	}
}

// warmPool are the monitors that wait. The zero value has none.
type warmPool struct {
	mu     sync.Mutex
	list   []*warmMonitor
	closed bool
	// used is when the last was needed, taken how many were since the last look, and making how
	// many of those machines are not up yet; more is how many were needed at once, at burst.
	used, burst         time.Time
	taken, making, more int

	timer   *time.Timer // of the next look, at due; nil for none
	due     time.Time
	looking bool
	stop    context.CancelFunc // ends the starting of one
	busy    sync.WaitGroup     // while somebody looks
	told    time.Time          // when it was last logged that none can be started
}

// needed says that a machine is being made, until made is called, when it is up or will never be.
func (w *warmPool) needed(e *engine) (made func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.used = time.Now()
	w.taken++
	w.making++
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.making--; w.making == 0 {
			w.lookAfter(e, calmTime)
		}
	}
}

// next is one that waits, if there is one.
func (w *warmPool) next() *warmMonitor {
	w.mu.Lock()
	defer w.mu.Unlock()
	last := len(w.list) - 1
	if last < 0 {
		return nil
	}
	s := w.list[last]
	w.list = w.list[:last]
	return s
}

// lookAfter has it be looked at them in a while, or before. The lock is held.
func (w *warmPool) lookAfter(e *engine, d time.Duration) {
	due := time.Now().Add(d)
	if w.closed || w.timer != nil && !w.due.After(due) {
		return
	}
	if w.timer != nil {
		w.timer.Stop()
	}
	w.timer, w.due = time.AfterFunc(d, e.look), due
}

// look starts monitors in the place of those that were taken, and ends those that are too many.
func (e *engine) look() {
	w := &e.warm
	w.mu.Lock()
	w.timer = nil
	if w.closed || w.looking || w.making > 0 { // it will be looked again
		w.mu.Unlock()
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	w.looking, w.stop = true, cancel
	w.busy.Add(1)
	defer w.busy.Done()
	want, surplus := w.judge(time.Now())
	w.mu.Unlock()
	for _, s := range surplus {
		e.dismiss(s)
	}
	e.fill(ctx, want)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.looking = false
	switch {
	case w.making > 0:
	case w.taken > 0:
		w.lookAfter(e, calmTime)
	case w.more > 0:
		w.lookAfter(e, time.Until(w.burst.Add(burstTime)))
	case len(w.list) > 0:
		w.lookAfter(e, time.Until(w.used.Add(idleTime)))
	}
}

// judge says how many are to wait, and gives those that are no more: too many, or ended. The
// lock is held.
func (w *warmPool) judge(now time.Time) (want int, surplus []*warmMonitor) {
	if now.Sub(w.burst) >= burstTime {
		w.more = 0
	}
	if w.taken > leastWarm {
		w.more, w.burst = max(w.more, min(w.taken, mostWarm)), now
	}
	want = max(w.more, leastWarm)
	if w.taken == 0 && now.Sub(w.used) >= idleTime {
		want = 0
	}
	w.taken = 0
	var left []*warmMonitor
	for _, s := range w.list {
		if len(left) == want || s.ended() {
			surplus = append(surplus, s)
		} else {
			left = append(left, s)
		}
	}
	w.list = left
	return want, surplus
}

func (s *warmMonitor) ended() bool {
	select {
	case <-s.process.ended:
		return true
	default:
		return false
	}
}

// fill starts monitors one after another, until so many wait.
func (e *engine) fill(ctx context.Context, want int) {
	w := &e.warm
	lacks := func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return !w.closed && len(w.list) < want
	}
	for lacks() {
		s, err := e.startMonitor(ctx)
		if err == nil && w.put(s) {
			continue
		}
		e.dismiss(s)
		if err != nil && ctx.Err() == nil {
			e.tellNoneWarm(err)
		}
		return
	}
}

// put has a monitor wait, unless the driver is closed.
func (w *warmPool) put(s *warmMonitor) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.closed {
		w.list = append(w.list, s)
	}
	return !w.closed
}

// tellNoneWarm says that none can be started: it is tried again when the next machine is made,
// which has one started for itself.
func (e *engine) tellNoneWarm(err error) {
	if now := time.Now(); now.Sub(e.warm.told) >= tellAgain {
		e.warm.told = now
		cmp.Or(e.opts.Logger, slog.Default()).Error(e.system.Name+": no monitor can be started ahead", "err", err)
	}
}

// close ends all that wait, and lets no more be started.
func (w *warmPool) close(ctx context.Context) (err error) {
	w.mu.Lock()
	w.closed = true
	if w.timer != nil {
		w.timer.Stop()
	}
	if w.stop != nil {
		w.stop()
	}
	list := w.list
	w.list = nil
	w.mu.Unlock()
	w.busy.Wait()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lifetime.CleanupTime)
	defer cancel()
	for _, s := range list {
		err = errors.Join(err, s.end(ctx))
	}
	return err
}
