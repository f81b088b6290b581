//go:build linux

package guest

import (
	"fmt"
	"os"

	"google.golang.org/protobuf/encoding/protojson"

	"aether/sandbox"

	pb "aether/guest/wire/process"
)

// Role is what a stream is to its process.
type Role string

// The roles of streams. Terminal is all of them in one.
const (
	Stdin    Role = "stdin"
	Stdout   Role = "stdout"
	Stderr   Role = "stderr"
	Terminal Role = "terminal"
)

// Kept is what a service knows of a process that runs, to be kept where the
// service is not.
type Kept struct {
	Pid    int     `json:"pid"`
	Tag    *string `json:"tag,omitempty"`
	Config []byte  `json:"config"` // what was asked for, in the wire's JSON
	// Roles are those of the streams that this service has the other ends of.
	Roles []Role `json:"roles"`
}

// Keep tells of a process, and gives the service's ends of its streams in the
// order of the roles. The files stay the service's.
func (s *Service) Keep(pid int) (k Kept, files []*os.File, err error) {
	s.procs.mu.Lock()
	p := s.procs.running[uint32(pid)]
	s.procs.mu.Unlock()
	if p == nil {
		return k, nil, processGone(uint32(pid))
	}
	k = Kept{Pid: pid, Tag: p.tag}
	if k.Config, err = protojson.Marshal(p.config); err != nil {
		return k, nil, fmt.Errorf("guest: keep process %d: %w", pid, err)
	}
	if p.master != nil {
		k.Roles, files = []Role{Terminal}, []*os.File{p.master}
		return k, files, nil
	}
	for i, end := range p.ends {
		k.Roles, files = append(k.Roles, roleOf(p.kinds[i])), append(files, end)
	}
	if p.input != nil {
		k.Roles, files = append(k.Roles, Stdin), append(files, p.input)
	}
	return k, files, nil
}

// AdoptKept takes a process for one that was kept. files are this service's ends
// of its streams in the order of the roles, nil for one that the process has
// closed. They are the service's from now on, unless it fails. Errors: Invalid for
// what Keep did not say.
func (s *Service) AdoptKept(running Process, k Kept, files []*os.File) error {
	config := &pb.ProcessConfig{}
	if err := protojson.Unmarshal(k.Config, config); err != nil {
		return &sandbox.Error{Class: sandbox.Invalid, Op: "guest: adopt", Reason: fmt.Sprintf("what is kept of process %d is damaged", k.Pid), Err: err}
	}
	p := &process{log: s.log, Process: running, pid: uint32(running.Pid()), config: config, tag: k.Tag, out: newOutput(s.keep), inputs: newTurn(), done: make(chan struct{})}
	for i, role := range k.Roles {
		if files[i] == nil {
			continue
		}
		switch role {
		case Stdin:
			p.input = files[i]
		case Terminal:
			p.input, p.master = files[i], files[i]
		}
		if kind := outputKinds[role]; kind != nil {
			p.ends, p.kinds = append(p.ends, files[i]), append(p.kinds, kind)
		}
	}
	s.procs.add(p)
	p.carry()
	go p.wait(func() { s.procs.end(p) })
	return nil
}

func roleOf(kind outputKind) Role {
	if _, ok := kind(nil).GetData().GetOutput().(*pb.ProcessEvent_DataEvent_Stderr); ok {
		return Stderr
	}
	return Stdout
}

var outputKinds = map[Role]outputKind{Stdout: stdoutEvent, Stderr: stderrEvent, Terminal: ptyEvent}
