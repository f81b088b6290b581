package confine

import (
	"slices"
	"sync"
	"time"

	"aether/internal/host/cgroup"
)

// readiness keeps a pre-joined process for the next command of a cell.
type readiness struct {
	// mu is held while a pre-joined process is made, so that none appears after the end.
	mu    sync.Mutex
	next  *prejoined
	ended bool
	held  bool // nobody may begin to stand by
	// unused ends who has stood by for too long.
	unused *time.Timer
}

// refill is how long the making of the next pre-joined process is put off: the command that
// took the last one is just starting, and many cells run no other.
const refill = 10 * time.Millisecond

// tired is how long somebody stands by for nothing. He has a process and two
// descriptors, and whoever comes that late can wait for half a millisecond.
var tired = 5 * time.Second // tests shorten it

// standby says whether somebody may stand by for commands of the cell: not for
// an ordinary user, everything of whose has one id, and not where memory is
// limited from birth on, for who stands by shares this program's. In a cell with clocks
// of its own nobody does: there are few of them.
func (c *Cell) standby() bool {
	return c.config.Ready && !c.config.Group.IntoMemory() && !c.host.Identity.Single && c.offsets == ""
}

// ready makes the next command of that user faster, for some memory: a process
// stands by to bring it in.
func (c *Cell) ready(who credentials) (err error) {
	r := &c.readiness
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended || r.held || r.next != nil || !c.standby() {
		return nil
	}
	if r.next, err = c.newPrejoined(who); err != nil {
		return err
	}
	if r.unused == nil {
		r.unused = time.AfterFunc(tired, c.tire)
	} else {
		r.unused.Reset(tired)
	}
	return nil
}

// tire ends who stands by. What he leaves if that fails goes with the cell.
func (c *Cell) tire() { _ = c.dismiss() }

// take gives the pre-joined process to one command, if it fits. One that is just being made
// is not waited for: its thread may have others to clone before.
func (c *Cell) take(command Command) *prejoined {
	r := &c.readiness
	if !r.mu.TryLock() {
		return nil
	}
	defer r.mu.Unlock()
	if r.next == nil || !r.next.fits(c, command) {
		return nil
	}
	return r.taken()
}

// taken is who stood by. The lock is held.
func (r *readiness) taken() *prejoined {
	e := r.next
	r.next = nil
	if r.unused != nil {
		r.unused.Stop()
	}
	return e
}

// prepare gets ready for a command like the one before. Without a pre-joined process the
// next one only takes longer, so a failure is nobody's concern.
func (c *Cell) prepare(command Command) {
	if !c.standby() || command.Group != c.config.Group {
		return
	}
	who := commandCredentials(c.host, command)
	c.base.last.Store(&who)
	time.AfterFunc(refill, func() {
		if c.readiness.stale(who) {
			_ = c.dismiss()
		}
		_ = c.ready(who)
	})
}

// stale says whether who stands by is not that user.
func (r *readiness) stale(who credentials) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.next != nil && !r.next.who.equal(who)
}

// Hold keeps everybody from beginning to stand by, or lets them again. It is for a cell
// whose group is frozen: who is cloned into that never begins to run, and the thread that
// waits for it would serve no other cell. Hold waits for who is just beginning.
func (c *Cell) Hold(held bool) {
	c.readiness.mu.Lock()
	defer c.readiness.mu.Unlock()
	c.readiness.held = held
}

// StandingBy is how many processes of the cell's groups are not the cell's own.
func (c *Cell) StandingBy() int64 {
	c.readiness.mu.Lock()
	defer c.readiness.mu.Unlock()
	if c.readiness.next == nil || !c.config.Group.Clones() {
		return 0
	}
	return 1
}

// dismiss ends what stands by.
func (c *Cell) dismiss() error {
	r := &c.readiness
	r.mu.Lock()
	e := r.taken()
	r.mu.Unlock()
	if e == nil {
		return nil
	}
	return e.discard()
}

// Regroup says where commands are accounted from now on. It must come before the
// first command.
func (c *Cell) Regroup(group cgroup.Way) error {
	r := &c.readiness
	r.mu.Lock()
	same := group == c.config.Group
	c.config.Group = group
	r.mu.Unlock()
	if same {
		return nil
	}
	return c.dismiss() // who stands by has no way into the new ones
}

// endReadiness ends what stands by, for good.
func (c *Cell) endReadiness() error {
	c.readiness.mu.Lock()
	c.readiness.ended = true
	c.readiness.mu.Unlock()
	return c.dismiss()
}

func commandCredentials(h *Host, command Command) credentials {
	return credentials{uid: command.UID, gid: command.GID, groups: command.Groups, single: h.Identity.Single}
}

func (c credentials) equal(other credentials) bool {
	return c.uid == other.uid && c.gid == other.gid && slices.Equal(c.groups, other.groups) && c.single == other.single
}
