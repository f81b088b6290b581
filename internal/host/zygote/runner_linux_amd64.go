package zygote

import (
	"errors"
	"os"
	"syscall"
	"time"

	"aether/internal/host/checkpoint"
	"aether/internal/host/confine"
	"aether/internal/host/spawn"

	"golang.org/x/sys/unix"
)

// runner is a process outside of all cells that runs scripts of this program's, one
// after another, and nothing else.
type runner struct {
	host    *confine.Host
	script  *spawn.Shared
	process *spawn.Process
	reaped  chan struct{} // closed when nobody uses the script for the process's end any more
	socket  *os.File      // by which it is sent descriptors
}

// Descriptors of a runner.
const (
	socketFd = 0
	scriptFd = 1 // the script's memory
)

const (
	scriptSteps = 1 << 16
	scriptArena = 8 << 20
	// scriptRoom is more than enough of addresses for a script.
	scriptRoom = 2 * (scriptSteps*80 + scriptArena)
)

// newRunner starts a runner whose script is at an address, and so many times as
// large as usual. It ends with the thread.
func newRunner(h *confine.Host, thread *spawn.Thread, at uint64, large int) (r *runner, err error) {
	r = &runner{host: h}
	if r.script, err = spawn.NewShared(large*scriptSteps, large*scriptArena, uintptr(at)); err != nil {
		return nil, err
	}
	if err := r.start(thread); err != nil {
		return nil, errors.Join(err, r.close())
	}
	return r, nil
}

func (r *runner) start(thread *spawn.Thread) (err error) {
	ours, theirs, err := confine.SocketPair()
	if err != nil {
		return err
	}
	defer theirs.Close()
	r.socket = ours
	if r.process, err = r.host.StartStub(thread, theirs, r.script.File()); err != nil {
		return err
	}
	shortenTurns(r.process.Pid())
	r.reaped = make(chan struct{})
	go func() {
		defer close(r.reaped)
		r.process.Wait() //nolint:errcheck // that it ended is all there is to know
		r.script.Ended()
	}()
	return thread.Do(func() error { return checkpoint.StartScript(r.process.Pid(), scriptFd, r.script) })
}

// shortTurn is the shortest turn that the kernel gives.
const shortTurn = 100 * time.Microsecond

// shortenTurns has a process preempt others when it is woken, as one with shorter turns does
// from Linux 6.12 on: on a crowded host each hand-over would wait for the end of a neighbour's
// turn instead. It gets no more time for that. Forks inherit it, until they are given the
// turns of who they are the fork of. A program that is nice preempts nobody; and its forks
// could not set their turns if their source is less nice.
func shortenTurns(pid int) {
	attr, err := unix.SchedGetAttr(pid, 0)
	if err != nil || attr.Runtime == 0 || attr.Nice > 0 { // the kernel has no such turns, or is not to use them
		return
	}
	attr.Runtime = uint64(shortTurn)
	unix.SchedSetAttr(pid, attr, 0) //nolint:errcheck // it only saves time
}

// steps begins a new script. The process must be waiting.
func (r *runner) steps() confine.Steps {
	r.script.Rewind()
	return r.host.Steps(r.script.Script)
}

// failSteps has a step of a script fail before it is run, for tests.
var failSteps func(script interface {
	Len() int
	Spoil(step int) (matters bool)
})

// run has the process run the script that was written.
func (r *runner) run() error {
	if failSteps != nil {
		failSteps(r.script)
	}
	return r.script.Run()
}

// wake has the process that stands by, a fork of this one, run it.
func (r *runner) wake() {
	if failSteps != nil {
		failSteps(r.script)
	}
	r.script.WakeStandBy()
}

// send sends descriptors, for the script to receive.
func (r *runner) send(fds []int) error {
	for len(fds) > 0 {
		n := min(len(fds), spawn.MaxRights)
		if err := unix.Sendmsg(int(r.socket.Fd()), []byte{0}, unix.UnixRights(fds[:n]...), nil, unix.MSG_DONTWAIT); err != nil {
			return os.NewSyscallError("sendmsg", err)
		}
		fds = fds[n:]
	}
	return nil
}

// adopt takes the process that the script has cloned into a cell.
func (r *runner) adopt() (*spawn.Process, error) {
	pid := r.script.Branched()
	if pid == 0 {
		if err := r.script.Failure(); err != nil {
			return nil, err
		}
		return nil, spawn.ErrEnded
	}
	return spawn.Adopt(pid)
}

// close ends the process. Its forks go on.
func (r *runner) close() error {
	errs := []error{kill(r.process)}
	if r.reaped != nil {
		<-r.reaped
	}
	if r.socket != nil {
		errs = append(errs, r.socket.Close())
	}
	return errors.Join(append(errs, r.script.Close())...)
}

// reap waits for a process that has done its work.
func reap(pid int) error {
	p, err := spawn.Adopt(pid)
	if err != nil {
		return err
	}
	_, err = p.Wait()
	return err
}

// kill ends a process and waits for it; p may be nil.
func kill(p *spawn.Process) error {
	if p == nil {
		return nil
	}
	if err := p.Signal(syscall.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
		return err
	}
	_, err := p.Wait()
	return err
}
