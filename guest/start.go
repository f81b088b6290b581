//go:build linux

package guest

import (
	"cmp"
	"context"
	"errors"
	"os"
	"syscall"
	"time"

	"aether/internal/host/pty"
	"aether/internal/host/spawn"
	"aether/sandbox"

	pb "aether/guest/wire/process"
)

// start starts the process of a request and attaches a first reader, so that
// nothing it writes is lost.
func (s *Service) start(ctx context.Context, c *caller, req *pb.StartRequest) (*process, *reader, error) {
	if err := s.procs.room(); err != nil {
		return nil, nil, err
	}
	io, err := s.openIO(req)
	if err != nil {
		return nil, nil, err
	}
	p := &process{log: s.log, config: req.GetProcess(), tag: req.Tag, out: newOutput(s.keep), inputs: newTurn(), done: make(chan struct{}),
		ends: io.ends, kinds: io.kinds, input: io.input, master: io.master}
	r := p.out.attach()
	// Before the process is started, which needs a processor as well: on a host with few that
	// are idle, those that were woken for this would hold it up.
	p.carry()
	deadline, timed := ctx.Deadline()
	p.Process, err = s.launch(ctx, c, req, io, timed)
	closeAll(io.child)
	if err != nil {
		closeAll(io.own())
		return nil, nil, err
	}
	p.pid = uint32(p.Pid())
	s.procs.add(p)
	if timed {
		p.timer = time.AfterFunc(time.Until(deadline), p.expire)
	}
	go p.wait(func() { s.procs.end(p) })
	return p, r, nil
}

// launch starts the process with these files.
func (s *Service) launch(ctx context.Context, c *caller, req *pb.StartRequest, io *stdio, killTree bool) (Process, error) {
	cmd, err := c.command(req)
	if err != nil {
		return nil, err
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.TTY, cmd.KillTree = io.stdin, io.stdout, io.stderr, io.tty, killTree
	p, err := s.startSoon(ctx, *cmd)
	if err != nil {
		return nil, c.startError(cmd, err)
	}
	return p, nil
}

// lastWait is how long it is waited, at last, for a program that is open for writing.
const lastWait = time.Second

// startSoon starts a process. A program that was just written may still be busy: whoever
// else was being started at that moment has a copy of the descriptor by which it was written
// until it executes its own.
func (s *Service) startSoon(ctx context.Context, cmd Command) (p Process, err error) {
	for wait := time.Millisecond; ; wait *= 2 {
		p, err = s.backend.Start(ctx, cmd)
		if !errors.Is(err, syscall.ETXTBSY) || wait > lastWait {
			return p, err
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(wait):
		}
	}
}

// startError classes what a back end could not. If the directory or the program is why, that
// says more than how it failed there.
func (c *caller) startError(cmd *Command, err error) error {
	class := sandbox.ClassOf(err)
	if class == sandbox.NotFound || class == sandbox.Denied || class == sandbox.Internal {
		if no := cmp.Or(c.enters(cmd.Dir), executable(c.root, cmd.Path)); no != nil {
			return no
		}
	}
	if class != sandbox.Internal {
		return err
	}
	return &sandbox.Error{Class: classOf(err), Op: "start " + clip(cmd.Path), Err: err}
}

// stdio is the files between a process and the service.
type stdio struct {
	stdin, stdout, stderr, tty *os.File // the process's
	child                      []*os.File
	ends                       []*os.File // read here
	kinds                      []outputKind
	input                      *os.File // written here
	master                     *os.File
}

func (io *stdio) own() []*os.File { return append(io.ends, io.input) }

func closeAll(files []*os.File) {
	for _, f := range files {
		if f != nil {
			f.Close()
		}
	}
}

func (s *Service) openIO(req *pb.StartRequest) (*stdio, error) {
	if req.GetPty() != nil {
		return s.openTerminal(req.GetPty().GetSize())
	}
	io := &stdio{kinds: []outputKind{stdoutEvent, stderrEvent}}
	fail := func(err error) (*stdio, error) {
		closeAll(append(io.child, io.own()...))
		return nil, err
	}
	for _, end := range []**os.File{&io.stdout, &io.stderr} {
		r, w, err := spawn.OutputPipe()
		if err != nil {
			return fail(err)
		}
		*end, io.ends, io.child = w, append(io.ends, r), append(io.child, w)
	}
	// A client that does not say whether it will send input is an old one, and
	// those do.
	if req.Stdin == nil || req.GetStdin() {
		r, w, err := spawn.InputPipe()
		if err != nil {
			return fail(err)
		}
		io.stdin, io.input, io.child = r, w, append(io.child, r)
	}
	return io, nil
}

func (s *Service) openTerminal(size *pb.PTY_Size) (*stdio, error) {
	cols, rows, err := terminalSize(size)
	if err != nil {
		return nil, err
	}
	master, slave, err := s.backend.OpenPTY()
	if err != nil {
		return nil, err
	}
	if cols > 0 && rows > 0 {
		if err := pty.SetSize(master, cols, rows); err != nil {
			closeAll([]*os.File{master, slave})
			return nil, err
		}
	}
	return &stdio{tty: slave, child: []*os.File{slave}, ends: []*os.File{master}, kinds: []outputKind{ptyEvent}, input: master, master: master}, nil
}
