package netpool

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"aether/internal/host/spawn"

	"golang.org/x/sys/unix"
)

const (
	// settle is how long a namespace lies before it is looked into. A socket that joined
	// a multicast group and was closed at once leaves reports of that to be sent, the first
	// after three ticks of the kernel's clock at most, which has a hundred in a second or more.
	settle = 100 * time.Millisecond
	// keepFor is how long a namespace waits for its next sandbox.
	keepFor = 5 * time.Second
	// maxKept is how many are kept: what lies while a thousand sandboxes a second end,
	// and some more. Each takes about 100 KiB of the kernel's memory and a descriptor.
	maxKept = 128
)

// Pool makes net namespaces with a loopback that is up, and keeps those that were not
// used. It is for a root with every right over what it makes.
type Pool struct {
	proc  procFS
	home  *os.File // the net namespace of this program
	visit Visitor
	log   *slog.Logger

	mu     sync.Mutex
	held   int    // by Hold
	lying  []kept // retired, the longest ago first
	ready  []kept // proved to be as new, likewise
	closed bool
	timer  *time.Timer
	busy   sync.WaitGroup // while tend runs
	ahead  sync.WaitGroup // while Prepare does
	wanted bool           // take was called
	making chan struct{}  // open while Prepare makes a namespace; nil before
	prover prover         // tend's alone

	sharing sync.Mutex
	unused  *os.File // the namespace of those who use none; nil before the first of them
}

// Visitor has a thread that nobody else uses meanwhile run a function. It is not the
// first of this program, by which others know its net namespace. If away is not nil, the
// thread has not come home, and is to do nothing more.
type Visitor func(fn func() (err, away error)) error

type kept struct {
	file  *os.File
	since time.Time
}

// Open gets a pool ready, which looks into namespaces by visit. What fails in the
// background is logged.
func Open(visit Visitor, log *slog.Logger) (*Pool, error) {
	proc, err := openProcFS()
	if err != nil {
		return nil, fmt.Errorf("netpool: %w", err)
	}
	home, err := openNamespace("/proc/thread-self/ns/net")
	if err != nil {
		return nil, fmt.Errorf("netpool: %w", errors.Join(err, proc.dir.Close()))
	}
	return &Pool{proc: proc, home: home, visit: visit, log: log}, nil
}

// openNamespace opens one for long.
func openNamespace(path string) (*os.File, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(spawn.Aside(fd)), path), nil
}

// Prepare makes a namespace in the background, for the first sandbox of a program that has
// other things to do before it starts that. What fails is logged, and left to Do.
func (p *Pool) Prepare() {
	p.ahead.Go(func() {
		err := p.visit(func() (err, away error) {
			if !p.begin() {
				return nil, nil
			}
			defer close(p.making)
			if err = enterNew(); err == nil {
				err = p.keepThis()
			}
			return err, p.leave()
		})
		if err != nil {
			p.log.Warn("netpool: no net namespace can be made ahead", "err", err)
		}
	})
}

// begin says whether a namespace may still be made ahead of the first that is wanted.
func (p *Pool) begin() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.wanted || p.closed {
		return false
	}
	p.making = make(chan struct{})
	return true
}

// keepThis keeps the thread's namespace, which is new.
func (p *Pool) keepThis() error {
	file, err := p.openThis()
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ready = append(p.ready, kept{file, time.Now()})
	if p.timer == nil && !p.closed {
		p.tendIn(keepFor)
	}
	return nil
}

// openThis opens the thread's namespace.
func (p *Pool) openThis() (*os.File, error) {
	const name = "thread-self/ns/net"
	fd, err := unix.Openat(int(p.proc.dir.Fd()), name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: "/proc/" + name, Err: err}
	}
	return os.NewFile(uintptr(spawn.Aside(fd)), name), nil
}

// Take gives a net namespace that shows nothing of any sandbox: one that was kept, or a new
// one.
func (p *Pool) Take() (file *os.File, err error) {
	if file := p.take(); file != nil {
		return file, nil
	}
	err = p.visit(func() (err, away error) {
		if err = enterNew(); err == nil {
			file, err = p.openThis()
		}
		return err, p.leave()
	})
	if err != nil {
		return nil, fmt.Errorf("netpool: make a net namespace: %w", err)
	}
	return file, nil
}

// Do runs fn on this thread, which is a Visitor's, in the net namespace of those processes
// that never use one: it is for the process that fn starts there. All share it, and its
// loopback is down.
func (p *Pool) Do(fn func() error) (err, away error) {
	if err := p.enterUnused(); err != nil {
		return fmt.Errorf("netpool: %w", err), p.leave()
	}
	return fn(), p.leave()
}

// enterUnused moves the thread into the namespace that nobody uses, which the first one makes.
func (p *Pool) enterUnused() error {
	p.sharing.Lock()
	defer p.sharing.Unlock()
	if p.unused != nil {
		return enter(p.unused)
	}
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return os.NewSyscallError("unshare", err)
	}
	file, err := p.openThis()
	p.unused = file
	return err
}

func enter(file *os.File) error {
	return os.NewSyscallError("setns", unix.Setns(int(file.Fd()), unix.CLONE_NEWNET))
}

func (p *Pool) leave() error { return enter(p.home) }

// Hold has open give a namespace that was taken, if there is room for another that is kept:
// nil if not. Retire or Release must follow.
func (p *Pool) Hold(open func() (int, error)) (*os.File, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.held+len(p.lying)+len(p.ready) >= maxKept {
		return nil, nil
	}
	fd, err := open()
	if err != nil {
		return nil, fmt.Errorf("netpool: %w", err)
	}
	p.held++
	return os.NewFile(uintptr(spawn.Aside(fd)), "a net namespace"), nil
}

// Release lets go of a namespace that was held.
func (p *Pool) Release(file *os.File) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held--
	file.Close()
}

// Retire takes a namespace back that was held, in which no process is left, nor comes, and
// in which nobody but those processes did anything. It is kept if they used no network.
func (p *Pool) Retire(file *os.File) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held--
	if p.closed {
		file.Close()
		return
	}
	p.lying = append(p.lying, kept{file, time.Now()})
	if len(p.lying) == 1 && p.idle() {
		p.tendIn(settle)
	}
}

// take gives the one that was kept last, or nil. It waits for one that is being made: by
// another thread, for this one would be busy with that.
func (p *Pool) take() *os.File {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wanted = true
	if p.making != nil {
		p.mu.Unlock()
		<-p.making
		p.mu.Lock()
	}
	last := len(p.ready) - 1
	if last < 0 {
		return nil
	}
	file := p.ready[last].file
	p.ready = p.ready[:last]
	return file
}

// tendIn has tend run after a while. The lock is held.
func (p *Pool) tendIn(pause time.Duration) {
	p.busy.Add(1)
	p.timer = time.AfterFunc(pause, p.tend)
}

// idle says that tend does not run, nor will before it is told to. The lock is held.
func (p *Pool) idle() bool {
	if p.timer == nil {
		return true
	}
	stopped := p.timer.Stop()
	if stopped {
		p.busy.Done()
	}
	return stopped
}

// tend looks into those that have lain for long enough, and lets those go that nobody
// came for.
func (p *Pool) tend() {
	defer p.busy.Done()
	p.mu.Lock()
	rested := p.lying[:due(p.lying, settle)]
	p.mu.Unlock()
	proved := p.prove(rested)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return // Close lets go of all
	}
	p.lying = p.lying[len(rested):] // others only add to it
	p.ready = append(p.ready, proved...)
	unwanted := due(p.ready, keepFor)
	closeAll(p.ready[:unwanted])
	p.ready = p.ready[unwanted:]
	p.timer = nil
	if next, ok := p.next(); ok {
		p.tendIn(next)
	}
}

// due is how many, from the first on, have been there for a time.
func due(list []kept, least time.Duration) (n int) {
	for n < len(list) && time.Since(list[n].since) >= least {
		n++
	}
	return n
}

func closeAll(list []kept) {
	for _, k := range list {
		k.file.Close()
	}
}

// next is when there is something to do again, if ever. The lock is held.
func (p *Pool) next() (pause time.Duration, ok bool) {
	if len(p.lying) > 0 {
		return settle - time.Since(p.lying[0].since), true
	}
	if len(p.ready) > 0 {
		return keepFor - time.Since(p.ready[0].since), true
	}
	return 0, false
}

// Close lets go of what is kept. Nothing may be done with the pool any more.
func (p *Pool) Close() {
	p.mu.Lock()
	p.closed = true
	p.idle()
	p.mu.Unlock()
	p.busy.Wait()
	p.ahead.Wait()
	closeAll(p.lying)
	closeAll(p.ready)
	if p.unused != nil {
		p.unused.Close()
	}
	p.home.Close()
	p.proc.dir.Close()
}
