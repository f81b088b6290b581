package confine

import (
	"slices"
	"sync"
	"time"

	"aether/host/cgroup"
)

// readiness keeps an entrant for the next command of a cell.
type readiness struct {
	mu    sync.Mutex
	next  *entrant
	ended bool
}

// refill is how long the making of the next entrant is put off: the command that
// took the last one is just starting.
const refill = 2 * time.Millisecond

// ready makes the next command of the cell faster, for some memory: a process
// stands by to bring it in.
func (c *Cell) ready(who credentials, group cgroup.Attach) error {
	r := &c.readiness
	r.mu.Lock()
	ended := r.ended
	r.mu.Unlock()
	if ended {
		return nil
	}
	e, err := c.newEntrant(who, group)
	if err != nil {
		return err
	}
	r.mu.Lock()
	if r.ended || r.next != nil {
		r.mu.Unlock()
		return e.discard()
	}
	r.next = e
	r.mu.Unlock()
	return nil
}

// take gives the entrant to one command, if it fits.
func (c *Cell) take(command Command) *entrant {
	r := &c.readiness
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.next == nil || !r.next.fits(c, command) {
		return nil
	}
	e := r.next
	r.next = nil
	return e
}

// standby says whether somebody may stand by for commands of the group. For an
// ordinary user nobody does: everything of his has one id.
func (c *Cell) standby(group cgroup.Attach) bool {
	return c.config.Ready && !group.IntoMemory && !c.host.Identity.Single
}

// prepare gets ready for a command like the one before. Without an entrant the
// next one only takes longer, so a failure is nobody's concern.
func (c *Cell) prepare(command Command) {
	if !c.standby(command.Group) {
		return
	}
	who := commandCredentials(c.host, command)
	c.base.last.Store(&who)
	c.readiness.mu.Lock()
	stale := c.readiness.next // it did not fit
	c.readiness.next = nil
	c.readiness.mu.Unlock()
	time.AfterFunc(refill, func() {
		if stale != nil {
			_ = stale.discard()
		}
		_ = c.ready(who, command.Group)
	})
}

// StandingBy is how many processes of the cell's groups are not the cell's own.
func (c *Cell) StandingBy() int64 {
	c.readiness.mu.Lock()
	defer c.readiness.mu.Unlock()
	if c.readiness.next == nil || c.readiness.next.group.Into < 0 {
		return 0
	}
	return 1
}

// unready ends what stands by, for good.
func (c *Cell) unready() error {
	r := &c.readiness
	r.mu.Lock()
	e := r.next
	r.next, r.ended = nil, true
	r.mu.Unlock()
	if e == nil {
		return nil
	}
	return e.discard()
}

func commandCredentials(h *Host, command Command) credentials {
	return credentials{uid: command.UID, gid: command.GID, groups: command.Groups, single: h.Identity.Single}
}

func (c credentials) equal(other credentials) bool {
	return c.uid == other.uid && c.gid == other.gid && slices.Equal(c.groups, other.groups) && c.single == other.single
}
