package confine

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"runtime"
	"syscall"

	"aether/internal/host/cgroup"
	"aether/internal/host/checkpoint"
	"aether/internal/host/spawn"

	"golang.org/x/sys/unix"
)

// Rebirth is what a child of a twin is given in its new cell.
type Rebirth struct {
	// Descriptors are all that it has. Those that stand for one open file have
	// the same File.
	Descriptors []Descriptor
	// Polls are the epoll sets among them.
	Polls []Poll
	// Mappings are the memory that it shares with others.
	Mappings []Mapping
	// Program is what /proc/self/exe is to show, or nil.
	Program *os.File
	Dir     string
	// UID, GID and Groups are ids of the cell.
	UID, GID uint32
	Groups   []uint32
	// Terminal is the descriptor of its controlling terminal, or -1.
	Terminal int
	// Foreground is the process group that the terminal listens to, or 0.
	Foreground int
	// Group is where the process is accounted; its files stay open.
	Group cgroup.Attach
	// Children are for those of the process, in the order of its twin's.
	Children []Rebirth
	// Sent runs, unless it is nil, when the process has been sent all of that and
	// is awaited.
	Sent func()
}

// Descriptor is a file under a number.
type Descriptor struct {
	Number      int
	File        *os.File
	CloseOnExec bool
	Locks       []checkpoint.Lock // that the process takes by itself
}

// Mapping is a file that a process has in its memory, shared.
type Mapping struct {
	File                *os.File
	Start, Size, Offset uint64
	Protection          uintptr
	Advice              []int // for madvise, each one
}

// Poll is what an epoll descriptor watches.
type Poll struct {
	Number  int
	Watches []Watch
}

// Watch is one descriptor in an epoll set.
type Watch struct {
	Number int
	Events uint32
	Data   uint64
}

const maxDescriptors = 1 << 16

// Spawn makes a child of the twin in another cell: it has all the namespaces,
// rules and limits of a command that is started there. It waits for Proceed.
func (t *Twin) Spawn(c *Cell, r Rebirth) (*spawn.Process, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.broken {
		return nil, errors.New("confine: the twin has ended")
	}
	p, err := t.spawn(c, r)
	if err != nil {
		// Descriptors that were not taken would be taken for the next one's.
		t.broken = true
		return nil, fmt.Errorf("confine: fork: %w", err)
	}
	return p, nil
}

func (t *Twin) spawn(c *Cell, r Rebirth) (p *spawn.Process, err error) {
	b := newBirth(t.newScript(), t, t, c, r)
	if err := t.settleSpare(b.newcomer()); err != nil {
		return nil, err
	}
	b.spare, t.spare = t.spare, nil
	t.script.Rewind()
	ready := t.script.Word()
	if err = b.write(ready); err == nil {
		err = b.sendAll()
	}
	if b.spare != nil {
		p = b.spare.process
	}
	if err == nil {
		p, err = t.bear(b, p)
	}
	if err == nil {
		if r.Sent != nil {
			r.Sent()
		}
		err = errors.Join(t.reapSpare(), t.keepUp(), t.script.AwaitFrom(ready, p))
	}
	if err != nil {
		return nil, errors.Join(err, bury(p))
	}
	t.born, t.child = b, p
	t.children++
	return p, nil
}

// bear has the script walked: by a process that is in the cell already, or by the
// twin, whose grandchild will be.
func (t *Twin) bear(b *birth, there *spawn.Process) (p *spawn.Process, err error) {
	if there != nil {
		t.summon()
		return there, nil
	}
	err = t.run()
	if maker := int(b.maker.Result()); maker > 0 {
		err = errors.Join(err, reap(maker))
	}
	p, adopted := t.adopt()
	return p, errors.Join(err, adopted)
}

// adopt takes the process that was born by the script.
func (t *Twin) adopt() (*spawn.Process, error) {
	pid := t.script.Branched()
	if pid == 0 {
		return nil, cmp.Or(t.script.Failure(), spawn.ErrEnded)
	}
	return spawn.Adopt(pid)
}

// Age tells the children of one imprint from those of the next.
func (t *Twin) Age() int { return t.age }

// Learn looks at what a child that Spawn made at that age has used of its memory
// since, for those that come after it. A twin that the child no longer shares
// memory with does not.
func (t *Twin) Learn(child *spawn.Process, age int) error {
	if t.habits.Full() {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.broken || t.recalled || t.age != age {
		return nil
	}
	return t.habits.Sample(child.Pid())
}

// Proceed has every process that was spawned since go on where its like was. None
// of them runs while another is still being made: until then that one could be
// stopped, and shares memory with its twin.
func (im *Imprint) Proceed() error {
	// One thread traces them all, and any will do.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := im.proceed(); err != nil {
		return fmt.Errorf("confine: fork: %w", err)
	}
	return nil
}

func (im *Imprint) proceed() (err error) {
	var all []*checkpoint.Tracee
	for _, t := range im.Twins {
		if t.born != nil && err == nil {
			err = t.born.prepare(t.child.Pid(), &all)
		}
		t.born, t.child = nil, nil
	}
	errs := []error{err}
	for _, child := range all {
		if err != nil {
			errs = append(errs, unix.Kill(child.PID, unix.SIGKILL))
		}
		errs = append(errs, child.Release())
	}
	return errors.Join(errs...)
}

func reap(pid int) error {
	p, err := spawn.Adopt(pid)
	if err != nil {
		return err
	}
	_, err = p.Wait()
	return err
}

// bury ends a child that did not come to life.
func bury(p *spawn.Process) error {
	if p == nil {
		return nil
	}
	if err := p.Signal(syscall.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
		return err
	}
	_, err := p.Wait()
	return err
}

// Inside is the number inside of a process of the tree below the twin, or 0.
func (t *Twin) Inside(pid int) int {
	if t.of == pid {
		return t.state.Tid()
	}
	for _, child := range t.Children {
		if number := child.Inside(pid); number > 0 {
			return number
		}
	}
	return 0
}
