package interpreter

import "sync"

// phase is where a stream stands in a call.
type phase int

const (
	before phase = iota
	during
	after
)

// call is one request and what comes back. The goroutine that follows the
// process feeds it; whoever made the call takes the events.
type call struct {
	nonce    string
	messages *assembler
	phases   [2]phase
	begun    chan struct{} // closed once both streams have begun
	waits    chan struct{} // closed once what is left of the call is awaited
	events   chan event
	over     chan struct{}   // closed when nobody takes events any more
	unlinked <-chan struct{} // closed when the process is not followed any more
	once     sync.Once
	waitOnce sync.Once
}

// event is output or a reply.
type event struct {
	stream  kind
	output  []byte
	message *message
}

func newCall(limits Limits, unlinked <-chan struct{}) *call {
	return &call{nonce: newToken(), messages: newAssembler(limits), begun: make(chan struct{}), waits: make(chan struct{}), events: make(chan event),
		over: make(chan struct{}), unlinked: unlinked}
}

func (c *call) within(k kind) bool { return c.phases[k] == during }

// mark moves a stream on. A begin after the end changes nothing.
func (c *call) mark(k kind, reply byte) {
	if reply == endKind {
		c.phases[k] = after
	} else if c.phases[k] == before {
		c.phases[k] = during
	}
	if c.phases[stdout] != before && c.phases[stderr] != before {
		c.once.Do(func() { close(c.begun) })
	}
}

// deliver waits until the event is taken, so that a program that writes faster
// than its reader takes has to wait as on a pipe.
func (c *call) deliver(e event) bool {
	select {
	case c.events <- e:
		return true
	case <-c.over:
	case <-c.unlinked:
	}
	return false
}
