package cell

import (
	"errors"
	"os"

	"aether/internal/host/checkpoint"
	"aether/internal/host/pty"
)

// origin is where the processes of a new cell come from: a cell that lives, or
// one that was kept.
type origin interface {
	// streams are those of all processes.
	streams() ([]*stream, error)
	// adopt has the child's service serve a process, by its own ends of streams.
	adopt(child *instance, p *process, ours map[*stream]*os.File) error
}

// stream is what this program has the other end of that a command reads or
// writes: a pipe, or a terminal.
type stream struct {
	Pipe     *pipeEnd  `json:"pipe,omitempty"`
	Terminal *terminal `json:"terminal,omitempty"`

	file *os.File // in a cell that lives
}

type pipeEnd struct {
	Inode uint64 `json:"inode"`
	// Writes says that this program's end is that for writing.
	Writes bool `json:"writes"`
}

type terminal struct {
	Number   int          `json:"number"`
	Settings pty.Settings `json:"settings"`
	// Foreground is the process group that it listens to, by its number here.
	Foreground int `json:"foreground"`
}

// newStream reads what a file of this program's is to a command. One that was
// closed is no stream.
func newStream(file *os.File, isTerminal bool) (s *stream, err error) {
	s = &stream{file: file}
	if isTerminal {
		s.Terminal, err = readTerminal(file)
	} else {
		s.Pipe = &pipeEnd{}
		s.Pipe.Inode, s.Pipe.Writes, err = checkpoint.PipeEnd(file)
	}
	if errors.Is(err, os.ErrClosed) {
		return &stream{file: file}, nil
	}
	return s, err
}

func readTerminal(master *os.File) (t *terminal, err error) {
	t = &terminal{}
	if t.Number, err = pty.Number(master); err != nil {
		return nil, err
	}
	if t.Settings, err = pty.Read(master); err != nil {
		return nil, err
	}
	t.Foreground, err = pty.Foreground(master)
	return t, err
}

func (i *instance) streams() (list []*stream, err error) {
	for _, known := range i.service.Streams() {
		s, err := newStream(known.File, known.Terminal)
		if err != nil {
			return nil, err
		}
		list = append(list, s)
	}
	return list, nil
}

func (i *instance) adopt(child *instance, p *process, ours map[*stream]*os.File) error {
	files := map[*os.File]*os.File{}
	for s, own := range ours {
		files[s.file] = own
	}
	return child.service.Adopt(i.service, p, files)
}
