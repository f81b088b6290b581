package network

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"aether/internal/companion"
	"aether/internal/host/jail"
	"aether/internal/host/launch"
	"aether/internal/host/spawn"
	"aether/internal/network/control"
)

// PathVariable names aether-net where it is neither beside this program nor in PATH.
const PathVariable = "AETHER_NET"

// program is the gateways' program.
var program = companion.Program{Name: "aether-net", Variable: PathVariable, For: "network"}

// errGone says that the process has ended before it answered.
var errGone = errors.New("the process of the gateways has ended")

// jailedID is who it is where this program is root's: an id that owns nothing.
const jailedID = 0x6ffe0002

// stopTime is more than a host takes that stands still meanwhile.
const stopTime = time.Minute

// process is the gateways' program, running.
type process struct {
	conn    *control.Conn
	child   *spawn.Process
	log     *slog.Logger
	heard   func(*process, control.Message)
	gone    chan struct{}
	mu      sync.Mutex
	seq     uint64
	waiting map[uint64]chan control.Message
	why     error
}

// thread starts the processes: they are killed when it ends, which it does not.
var thread = sync.OnceValues(func() (*spawn.Thread, error) { return spawn.NewThread(func() error { return nil }) })

func startProcess(log *slog.Logger, hello *control.Hello, heard func(*process, control.Message)) (*process, error) {
	path, err := program.Find()
	if err != nil {
		return nil, err
	}
	exe, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer exe.Close()
	ours, theirs, err := launch.SocketPair()
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, errors.Join(err, ours.Close())
	}
	defer null.Close()
	p := &process{conn: control.New(ours), log: log, heard: heard, gone: make(chan struct{}), waiting: map[uint64]chan control.Message{}}
	on, err := thread()
	if err != nil {
		return nil, errors.Join(err, ours.Close())
	}
	start := func() (err error) {
		p.child, err = jail.Start(jail.Program{Exe: exe, Args: []string{program.Name}, Files: []*os.File{null, null, os.Stderr, theirs}, ID: jailedID})
		return err
	}
	if err := on.Do(start); err != nil {
		return nil, errors.Join(err, ours.Close())
	}
	go p.read()
	if err := p.conn.WriteRequest(control.Request{Hello: hello}, nil); err != nil {
		return nil, errors.Join(err, p.stop())
	}
	return p, nil
}

// read takes answers and what was decided, until the process ends.
func (p *process) read() {
	for {
		var m control.Message
		file, err := p.conn.Read(&m)
		if file != nil {
			file.Close() // nobody asked for one
		}
		if err != nil {
			p.end(err)
			return
		}
		if m.Seq == 0 {
			p.heard(p, m)
			continue
		}
		p.mu.Lock()
		wait := p.waiting[m.Seq]
		delete(p.waiting, m.Seq)
		p.mu.Unlock()
		if wait != nil {
			wait <- m
		}
	}
}

// end kills what is left of the process.
func (p *process) end(err error) {
	_ = p.child.Signal(syscall.SIGKILL) // it may have ended
	status, waited := p.child.Wait()
	p.mu.Lock()
	p.why = errors.Join(err, waited, fmt.Errorf("it ended with %+v", status))
	p.mu.Unlock()
	if err := p.conn.Close(); err != nil {
		p.log.Debug("network: close", "err", err)
	}
	close(p.gone)
}

func (p *process) ended() bool {
	select {
	case <-p.gone:
		return true
	default:
		return false
	}
}

func (p *process) reason() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.why
}

// ask sends a request and waits for the answer. Errors: errGone.
func (p *process) ask(ctx context.Context, r control.Request, file *os.File) (control.Message, error) {
	wait := make(chan control.Message, 1)
	p.mu.Lock()
	p.seq++
	r.Seq = p.seq
	p.waiting[r.Seq] = wait
	p.mu.Unlock()
	defer p.forget(r.Seq)
	if err := p.conn.WriteRequest(r, file); err != nil {
		return control.Message{}, errors.Join(errGone, err)
	}
	select {
	case m := <-wait:
		if m.Error != "" {
			return control.Message{}, fmt.Errorf("the gateways' program: %s", m.Error)
		}
		return m, nil
	case <-p.gone:
		return control.Message{}, errGone
	case <-ctx.Done():
		return control.Message{}, ctx.Err()
	}
}

// forget is for whoever no longer waits for an answer.
func (p *process) forget(seq uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.waiting, seq)
}

// stop ends the process: whoever reads what it says kills it when there is no more.
func (p *process) stop() error {
	err := p.conn.Close()
	if errors.Is(err, net.ErrClosed) {
		err = nil // it has ended by itself
	}
	select {
	case <-p.gone:
	case <-time.After(stopTime):
		err = errors.Join(err, errors.New("the process of the gateways does not end"))
	}
	return err
}
