package checkpoint

import (
	"errors"
	"os"

	"aether/internal/host/pty"
)

// Stream is a pipe or terminal of a command whose other end is outside of the cell,
// with whoever serves the command. In a restored cell that end is made anew.
type Stream struct {
	Pipe     *PipeStream     `json:"pipe,omitempty"`
	Terminal *TerminalStream `json:"terminal,omitempty"`
}

// PipeStream is a pipe.
type PipeStream struct {
	Inode uint64 `json:"inode"`
	// Writes says that the end outside is that for writing.
	Writes bool `json:"writes"`
}

// TerminalStream is a terminal, whose master is outside.
type TerminalStream struct {
	Number   int          `json:"number"`
	Settings pty.Settings `json:"settings"`
	// Foreground is the process group that it listens to, by its number here.
	Foreground int `json:"foreground"`
}

// ReadStream reads what the end outside is an end of. One that was closed is no
// stream: neither pipe nor terminal.
func ReadStream(outside *os.File, terminal bool) (s *Stream, err error) {
	s = &Stream{}
	if terminal {
		s.Terminal, err = readTerminal(outside)
	} else {
		s.Pipe = &PipeStream{}
		s.Pipe.Inode, s.Pipe.Writes, err = pipeEnd(outside)
	}
	if errors.Is(err, os.ErrClosed) {
		return &Stream{}, nil
	}
	return s, err
}

func readTerminal(master *os.File) (t *TerminalStream, err error) {
	t = &TerminalStream{}
	if t.Number, err = pty.Number(master); err != nil {
		return nil, err
	}
	if t.Settings, err = pty.Read(master); err != nil {
		return nil, err
	}
	t.Foreground, err = pty.Foreground(master)
	return t, err
}
