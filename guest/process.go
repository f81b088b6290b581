//go:build linux

package guest

import (
	"errors"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"aether/internal/host/pty"
	"aether/sandbox"

	pb "aether/guest/wire/process"
)

const (
	firstRead = 4 << 10
	largeRead = 64 << 10
	// idleGrace is how long the output of a process that has ended is waited
	// for, where others may hold it open: on a terminal, or after a signal.
	idleGrace  = 100 * time.Millisecond
	graceParts = 4
)

// process is one that was started here.
type process struct {
	Process
	log    Logger
	pid    uint32
	tag    *string
	config *pb.ProcessConfig

	out    *output
	input  *os.File // stdin or the terminal's master; nil for none
	master *os.File // nil without a terminal
	ends   []*os.File
	kinds  []outputKind // of the ends
	pumps  sync.WaitGroup
	cut    []error // why the output of each end could not be read; nil for none
	inputs turn    // keeps pieces of input whole and in order

	timer     *time.Timer // nil without a timeout
	timedOut  atomic.Bool
	signalled atomic.Bool
	exited    atomic.Bool

	done   chan struct{} // closed once status and failure are known
	status Status
	failed error
	ended  time.Time
}

// carry begins to carry output.
func (p *process) carry() {
	p.cut = make([]error, len(p.ends))
	for i, end := range p.ends {
		p.pumps.Go(func() { p.cut[i] = p.pump(end, p.kinds[i]) })
	}
}

// wait waits for the end. Then runs before anybody hears of that.
func (p *process) wait(then func()) {
	p.status, p.failed = p.Process.Wait()
	p.exited.Store(true)
	if p.master != nil || p.signalled.Load() {
		p.hurry()
	}
	// Others that inherited the output may still write to it; it ends with the
	// last of them.
	p.pumps.Wait()
	p.tellCut()
	if p.timer != nil {
		p.timer.Stop()
	}
	if p.input != nil {
		p.input.Close()
	}
	p.ended = time.Now()
	then()
	close(p.done)
	p.out.close()
}

// hurry makes the pumps end when no output comes any more. A file that cannot
// have a deadline ends by itself.
func (p *process) hurry() {
	for _, end := range p.ends {
		_ = end.SetReadDeadline(time.Now().Add(idleGrace))
	}
}

// pump carries one stream, and gives what cut it off. Its buffer grows with what is
// written: most processes write little, and an idle one should cost little.
func (p *process) pump(end *os.File, kind outputKind) error {
	defer end.Close()
	buf := make([]byte, firstRead)
	for silence := 0; ; {
		n, err := end.Read(buf)
		if n > 0 {
			p.out.append(kind(buf[:n]), n)
			silence = 0
		}
		if n == len(buf) && n < largeRead {
			buf = make([]byte, largeRead)
		}
		if errors.Is(err, os.ErrDeadlineExceeded) && p.exited.Load() && silence < graceParts {
			// It may have passed while a slow reader was waited for, or nobody had a
			// processor, with output left behind, which is not looked at once it has: the
			// stream is over after a whole grace of silence, the parts of which are counted.
			silence++
			err = end.SetReadDeadline(time.Now().Add(idleGrace / graceParts))
		}
		if err != nil {
			return err
		}
	}
}

// tellCut logs what cut output off. The end of a stream, which is EIO for a
// terminal, does not, nor does silence after the process's end.
func (p *process) tellCut() {
	for _, err := range p.cut {
		if err == io.EOF || errors.Is(err, syscall.EIO) || errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, os.ErrClosed) {
			continue
		}
		p.log.Warn("guest: the output of a process cannot be read", "pid", p.pid, "err", err)
	}
}

// expire ends the process and everything it started, its time being over.
func (p *process) expire() {
	p.timedOut.Store(true)
	p.signalled.Store(true)
	if err := p.Kill(); err != nil && classOf(err) != sandbox.NotFound {
		p.out.append(stderrEvent([]byte("timeout: "+err.Error()+"\n")), 0)
		p.log.Error("guest: a process whose time is over cannot be ended", "pid", p.pid, "err", err)
	}
}

func (p *process) signal(sig syscall.Signal) error {
	if p.exited.Load() {
		return processGone(p.pid)
	}
	if sig == syscall.SIGKILL || sig == syscall.SIGTERM {
		p.signalled.Store(true)
	}
	return p.Signal(sig)
}

func (p *process) resize(size *pb.PTY_Size) error {
	if p.master == nil {
		return sandbox.Invalidf("process", "it has no terminal")
	}
	cols, rows, err := terminalSize(size)
	if err != nil {
		return err
	}
	if err := pty.SetSize(p.master, cols, rows); err != nil {
		return err
	}
	if r, ok := p.Process.(Resized); ok {
		return r.Resized()
	}
	return nil
}

func terminalSize(size *pb.PTY_Size) (cols, rows uint16, err error) {
	if size.GetCols() > 1<<16-1 || size.GetRows() > 1<<16-1 {
		return 0, 0, sandbox.Invalidf("pty.size", "%d by %d is too large", size.GetCols(), size.GetRows())
	}
	return uint16(size.GetCols()), uint16(size.GetRows()), nil
}
