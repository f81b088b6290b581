package cli

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/term"

	"aether/guest"
	"aether/sandbox"
)

// terminal prepares for -t: the command gets a terminal of the size of ours,
// which passes every key on until restore.
func (f *foreground) terminal(cmd *guest.Cmd) (restore func(), err error) {
	if !f.joined.terminal {
		return func() {}, nil
	}
	if f.joined.json {
		return nil, sandbox.Invalidf("--json", "it cannot be combined with -t")
	}
	in, ok := fileOf(f.cmd.InOrStdin())
	if !ok || !term.IsTerminal(in) {
		return nil, &sandbox.Error{Class: sandbox.Invalid, Field: "-t", Reason: "standard input is no terminal", Remedy: "leave -t out"}
	}
	cmd.Terminal = sizeOf(in)
	var old *term.State
	if f.joined.input {
		if old, err = term.MakeRaw(in); err != nil {
			return nil, err
		}
	}
	changed := make(chan os.Signal, 1)
	signal.Notify(changed, syscall.SIGWINCH)
	f.resize = func(running *guest.Running) { go resize(running, in, changed) }
	return func() {
		signal.Stop(changed)
		close(changed)
		if old != nil {
			// Nothing can be done about a terminal that went away.
			_ = term.Restore(in, old)
		}
	}, nil
}

// resize tells the command when our window changes its size.
func resize(running *guest.Running, in int, changed <-chan os.Signal) {
	for range changed {
		// A command that has just ended has no terminal to be resized.
		_ = running.Resize(context.Background(), *sizeOf(in))
	}
}

func sizeOf(fd int) *guest.Size {
	cols, rows, err := term.GetSize(fd)
	if err != nil || cols <= 0 || rows <= 0 {
		cols, rows = 80, 24
	}
	return &guest.Size{Cols: uint16(min(cols, 1<<16-1)), Rows: uint16(min(rows, 1<<16-1))}
}

func fileOf(r io.Reader) (int, bool) {
	f, ok := r.(*os.File)
	if !ok {
		return 0, false
	}
	return int(f.Fd()), true
}
