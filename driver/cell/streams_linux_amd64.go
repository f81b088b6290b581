package cell

import (
	"os"

	"aether/internal/host/checkpoint"
)

// origin is where the processes of a new cell come from: a cell that lives, or one
// that was kept.
type origin interface {
	// streams are those of all processes that this program has the other ends of.
	streams() ([]*checkpoint.Stream, error)
	// adopt has the child's service serve a process, by its own ends of streams.
	adopt(child *instance, p *process, outside map[*checkpoint.Stream]*os.File) error
}

// liveStreams are those of a cell that lives, with this program's ends.
type liveStreams struct {
	*instance
	ends map[*checkpoint.Stream]*os.File
}

var _ origin = (*liveStreams)(nil)

func (l *liveStreams) streams() (list []*checkpoint.Stream, err error) {
	l.ends = map[*checkpoint.Stream]*os.File{}
	for _, known := range l.service.Streams() {
		s, err := checkpoint.ReadStream(known.File, known.Terminal)
		if err != nil {
			return nil, err
		}
		l.ends[s] = known.File
		list = append(list, s)
	}
	return list, nil
}

func (l *liveStreams) adopt(child *instance, p *process, outside map[*checkpoint.Stream]*os.File) error {
	files := map[*os.File]*os.File{}
	for s, own := range outside {
		files[l.ends[s]] = own
	}
	return child.service.Adopt(l.service, p, files)
}
