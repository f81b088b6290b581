package tool

import (
	"context"
	"maps"
	"sync"
	"time"

	"aether/interpreter"
)

// What a State remembers is bounded: the oldest goes first, and any of those that have
// no order.
const (
	maxOutputs     = 64
	maxOutputBytes = 32 << 20
	maxCodes       = 4096
)

// State is what calls remember for later ones: what commands wrote that was cut, and which
// interpreters are whose. Sessions of several callers may share one: whoever asks for
// something of it has to reach the sandbox that it is about.
type State struct {
	born    time.Time // what was made before may hold what it does not know
	mu      sync.Mutex
	outputs []*output // oldest first
	bytes   int
	codes   map[string]map[interpreter.Language]codeContext
	turns   map[string]*turn
}

// codeContext is an interpreter that runs in a sandbox.
type codeContext struct {
	handle interpreter.Handle
	// copied says that it is a copy, whose random numbers are those of its source.
	copied bool
}

// turn is held by the one call that is attached to an interpreter of a sandbox.
type turn struct {
	held    chan struct{}
	waiting int
}

// NewState makes one.
func NewState() *State {
	return &State{born: time.Now(), codes: map[string]map[interpreter.Language]codeContext{}, turns: map[string]*turn{}}
}

// output is what a command wrote that has ended.
type output struct {
	sandbox        string
	pid            int
	stdout, stderr []byte
	end            commandEnd
}

func (o *output) size() int { return len(o.stdout) + len(o.stderr) }

// keep remembers what a command wrote.
func (s *State) keep(o *output) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop(func(old *output) bool { return old.sandbox == o.sandbox && old.pid == o.pid })
	s.outputs = append(s.outputs, o)
	s.bytes += o.size()
	for len(s.outputs) > maxOutputs || s.bytes > maxOutputBytes {
		s.bytes -= s.outputs[0].size()
		s.outputs[0] = nil
		s.outputs = s.outputs[1:]
	}
}

// drop forgets outputs. s.mu is held.
func (s *State) drop(which func(*output) bool) {
	var left []*output
	for _, o := range s.outputs {
		if which(o) {
			s.bytes -= o.size()
		} else {
			left = append(left, o)
		}
	}
	s.outputs = left
}

func (s *State) find(sandbox string, pid int) *output {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range s.outputs {
		if o.sandbox == sandbox && o.pid == pid {
			return o
		}
	}
	return nil
}

// forgetOutput forgets a process whose number another one has now.
func (s *State) forgetOutput(sandbox string, pid int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop(func(o *output) bool { return o.sandbox == sandbox && o.pid == pid })
}

// forget forgets all about a sandbox.
func (s *State) forget(sandbox string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop(func(o *output) bool { return o.sandbox == sandbox })
	delete(s.codes, sandbox)
}

// take waits until the caller alone may use the interpreters of a sandbox.
func (s *State) take(ctx context.Context, sandbox string) (release func(), err error) {
	s.mu.Lock()
	t := s.turns[sandbox]
	if t == nil {
		t = &turn{held: make(chan struct{}, 1)}
		s.turns[sandbox] = t
	}
	t.waiting++
	s.mu.Unlock()
	leave := func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if t.waiting--; t.waiting == 0 {
			delete(s.turns, sandbox)
		}
	}
	select {
	case t.held <- struct{}{}:
		return func() { <-t.held; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, context.Cause(ctx)
	}
}

func (s *State) code(of string, language interpreter.Language) (codeContext, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, ok := s.codes[of][language]
	return c, ok
}

func (s *State) setCode(of string, c codeContext) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.makeRoom(of)
	if s.codes[of] == nil {
		s.codes[of] = map[interpreter.Language]codeContext{}
	}
	s.codes[of][c.handle.Language] = c
}

// copyCodes has a copy of a sandbox have its interpreters too. What had none has none.
func (s *State) copyCodes(from, to string, copied bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.makeRoom(to)
	list := maps.Clone(s.codes[from])
	for language, c := range list {
		c.copied = c.copied || copied
		list[language] = c
	}
	if delete(s.codes, to); len(list) > 0 {
		s.codes[to] = list
	}
}

// makeRoom forgets somebody's interpreters, which are started anew then. s.mu is held.
func (s *State) makeRoom(of string) {
	for other := range s.codes {
		if len(s.codes) < maxCodes || s.codes[of] != nil {
			return
		}
		delete(s.codes, other)
	}
}

// Names of what interpreters are remembered for besides sandboxes, whose ids have no colon.
func ofSnapshot(id string) string        { return "snapshot:" + id }
func ofMark(sandbox, name string) string { return "mark:" + sandbox + ":" + name }
