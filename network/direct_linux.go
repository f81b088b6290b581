package network

import (
	"log/slog"
	"net/netip"
	"os"
	"sync"
	"time"

	"aether/internal/host/nat"
	"aether/internal/network/control"
	"aether/network/policy"
	"aether/sandbox"
)

// keepAnswers is how long an address that a name was said to have can be reached: longer
// than the answer says, for programs keep addresses. One with a connection stays.
var keepAnswers = 5 * time.Minute

const (
	// maxKnown is how many addresses of names a sandbox has at once.
	maxKnown = 4096
	// maxWaiting is how many questions wait until the one before is answered.
	maxWaiting = 64
)

// direct is a sandbox that reaches hosts by itself, through the kernel.
type direct struct {
	port *nat.Port
	// listener takes connections for questions about names, as the sandbox's device is the
	// socket for datagrams.
	listener  *os.File
	log       *slog.Logger
	questions chan question
	stopped   chan struct{}
	work      sync.WaitGroup

	mu    sync.Mutex
	rules *directRules
	// known are the addresses of names, with when they were said last, and sets those of
	// the groups of rules, which are the kernel's.
	known map[string]map[netip.Addr]time.Time
	count int
	sets  []map[netip.Addr]bool
}

func newDirect(p policy.Policy, log *slog.Logger) *direct {
	d := &direct{log: log, questions: make(chan question, maxWaiting), stopped: make(chan struct{}), known: map[string]map[netip.Addr]time.Time{}}
	d.rules = newDirectRules(p)
	d.sets = d.wanted(d.rules)
	return d
}

// question is one of the sandbox's name server.
type question struct {
	control.Question
	from *process
}

// start begins to answer which addresses may be reached.
func (d *direct) start(answer func(q question, list []netip.Addr)) {
	d.work.Go(func() {
		sweep := time.NewTicker(keepAnswers / 5)
		defer sweep.Stop()
		for {
			select {
			case q := <-d.questions:
				answer(q, d.admit(q.Name, q.Addresses))
			case <-sweep.C:
				if err := d.sweep(); err != nil {
					d.log.Warn("network: addresses that were not removed", "err", err)
				}
			case <-d.stopped:
				return
			}
		}
	})
}

// ask takes a question. Whoever asks too many gets no answer, and asks again.
func (d *direct) ask(q question) {
	select {
	case d.questions <- q:
	default:
	}
}

// admit has the sandbox reach the addresses of a name that the policy allows: who says
// that the name has them reads hostile bytes, and is believed in nothing else.
func (d *direct) admit(name string, list []netip.Addr) (admitted []netip.Addr) {
	if clean, err := sandbox.ParseHostName(name); err != nil || clean != name {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	var changes []nat.Change
	for _, a := range list {
		if a.Is4() && d.rules.reaches(name, a) && d.know(name, a) {
			admitted = append(admitted, a)
			changes = append(changes, d.added(name, a)...)
		}
	}
	if len(changes) == 0 {
		return admitted
	}
	if err := d.port.Change(changes); err != nil {
		d.log.Warn("network: addresses that were not added", "err", err)
		d.forget(changes)
		return nil
	}
	return admitted
}

// know notes that a name has an address now, if there is room.
func (d *direct) know(name string, a netip.Addr) bool {
	if _, known := d.known[name][a]; !known {
		if d.count >= maxKnown {
			return false
		}
		d.count++
	}
	if d.known[name] == nil {
		d.known[name] = map[netip.Addr]time.Time{}
	}
	d.known[name][a] = time.Now()
	return true
}

// added are the sets that an address of a name comes into.
func (d *direct) added(name string, a netip.Addr) (changes []nat.Change) {
	for i, g := range d.rules.groups {
		if !d.sets[i][a] && g.has(name, a) {
			d.sets[i][a] = true
			changes = append(changes, nat.Change{Match: i, Add: []netip.Addr{a}})
		}
	}
	return changes
}

func (d *direct) forget(changes []nat.Change) {
	for _, c := range changes {
		for _, a := range c.Add {
			delete(d.sets[c.Match], a)
		}
	}
}

// wanted are the sets that rules have of what is known.
func (d *direct) wanted(rules *directRules) []map[netip.Addr]bool {
	sets := make([]map[netip.Addr]bool, len(rules.groups))
	for i, g := range rules.groups {
		sets[i] = map[netip.Addr]bool{}
		for name, list := range d.known {
			for a := range list {
				if g.has(name, a) {
					sets[i][a] = true
				}
			}
		}
	}
	return sets
}

// set changes the policy at once, and cuts what it does not allow.
func (d *direct) set(p policy.Policy) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	rules := newDirectRules(p)
	sets := d.wanted(rules)
	if err := d.port.Set(rules.rules(sets)); err != nil {
		return err
	}
	d.rules, d.sets = rules, sets
	return d.port.Cut(func(f nat.Flow) bool { return rules.allows(f, sets) })
}

// sweep forgets addresses that were said long ago and have no connection.
func (d *direct) sweep() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.hasOld() {
		return nil
	}
	flows, err := d.port.Flows()
	if err != nil {
		return err
	}
	used := map[netip.Addr]bool{}
	for _, f := range flows {
		used[f.To] = true
	}
	for name, list := range d.known {
		for a, said := range list {
			if time.Since(said) > keepAnswers && !used[a] {
				delete(list, a)
				d.count--
			}
		}
		if len(list) == 0 {
			delete(d.known, name)
		}
	}
	return d.shrink()
}

func (d *direct) hasOld() bool {
	for _, list := range d.known {
		for _, said := range list {
			if time.Since(said) > keepAnswers {
				return true
			}
		}
	}
	return false
}

// shrink takes out of the kernel's sets what is not known any more.
func (d *direct) shrink() error {
	sets := d.wanted(d.rules)
	var changes []nat.Change
	for i, set := range d.sets {
		c := nat.Change{Match: i}
		for a := range set {
			if !sets[i][a] {
				c.Remove = append(c.Remove, a)
			}
		}
		if len(c.Remove) > 0 {
			changes = append(changes, c)
		}
	}
	if len(changes) == 0 {
		return nil
	}
	if err := d.port.Change(changes); err != nil {
		return err
	}
	for _, c := range changes {
		for _, a := range c.Remove {
			delete(d.sets[c.Match], a)
		}
	}
	return nil
}

// stop ends what start began.
func (d *direct) stop() {
	close(d.stopped)
	d.work.Wait()
}
