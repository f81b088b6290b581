//go:build linux

package guest

import (
	"os"
)

// Stream is this service's end of what a running process reads or writes.
type Stream struct {
	Pid      int
	File     *os.File
	Terminal bool
}

// Streams are those of every process that runs. Their files stay the service's.
func (s *Service) Streams() []Stream {
	s.procs.mu.Lock()
	defer s.procs.mu.Unlock()
	var list []Stream
	for _, p := range s.procs.running {
		for _, f := range p.ends {
			list = append(list, Stream{int(p.pid), f, f == p.master})
		}
		if p.input != nil && p.input != p.master {
			list = append(list, Stream{int(p.pid), p.input, false})
		}
	}
	return list
}

// Inherit takes over the settings of the service of a sandbox that this one's
// was forked from.
func (s *Service) Inherit(from *Service) {
	settings := from.current()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settings = settings
}

// Adopt takes a process, which a fork has made, for what the process of that
// number is in the service of its source: it has the same tag and configuration
// and can be connected to. files gives this service's own end for each of the
// source's. What the source had written before the fork is not repeated.
func (s *Service) Adopt(from *Service, running Process, files map[*os.File]*os.File) error {
	pid := uint32(running.Pid())
	from.procs.mu.Lock()
	was := from.procs.running[pid]
	from.procs.mu.Unlock()
	if was == nil {
		return processGone(pid)
	}
	p := &process{log: s.log, Process: running, pid: pid, config: was.config, tag: was.tag,
		out: newOutput(s.keep), inputs: newTurn(), done: make(chan struct{}), input: files[was.input], master: files[was.master]}
	for i, end := range was.ends {
		// One that is missing is a stream that the process has closed.
		if files[end] != nil {
			p.ends, p.kinds = append(p.ends, files[end]), append(p.kinds, was.kinds[i])
		}
	}
	s.procs.add(p)
	p.carry()
	go p.wait(func() { s.procs.end(p) })
	return nil
}
