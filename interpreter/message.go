package interpreter

import "sync/atomic"

// message is a reply of an interpreter that is longer than a piece may be.
type message struct {
	kind byte
	body []byte
	lost bool // it did not fit; its number is kept until its last piece
}

const (
	// maxOpen bounds the messages that are under way at once. Threads and children
	// may show values at the same time, but not that many.
	maxOpen = 64
	// maxErrors bounds the errors of a call apart from its values: a call full of
	// values must still be able to say that it failed.
	maxErrors = 8 << 20
)

// budget is how many bytes one message, and all that are still to come, may have.
type budget struct{ most, room int }

// assembler joins the pieces of one call's values and errors.
type assembler struct {
	budgets map[byte]*budget
	open    map[uint32]*message
	dropped atomic.Int64 // messages that did not fit
}

func newAssembler(limits Limits) *assembler {
	return &assembler{open: map[uint32]*message{}, budgets: map[byte]*budget{
		valueKind: {limits.ValueBytes, limits.TotalBytes},
		errorKind: {maxErrors, maxErrors},
	}}
}

// add takes a piece and gives the message that it completes, or nil.
func (a *assembler) add(p piece) *message {
	m := a.open[p.message]
	switch {
	case a.budgets[p.kind] == nil:
		return nil
	case p.first:
		a.abandon(m)
		m = &message{kind: p.kind}
	case m == nil || m.kind != p.kind:
		return nil // its beginning was not seen
	}
	a.grow(m, p.body)
	if !p.last {
		a.keep(p.message, m)
		return nil
	}
	delete(a.open, p.message)
	if m.lost {
		a.dropped.Add(1)
		return nil
	}
	return m
}

func (a *assembler) keep(number uint32, m *message) {
	if a.open[number] == nil && len(a.open) >= maxOpen {
		a.abandon(m)
		return
	}
	a.open[number] = m
}

// abandon gives up a message that will not be completed.
func (a *assembler) abandon(m *message) {
	if m == nil {
		return
	}
	a.budgets[m.kind].room += len(m.body)
	a.dropped.Add(1)
}

func (a *assembler) grow(m *message, body []byte) {
	b := a.budgets[m.kind]
	if m.lost || len(m.body)+len(body) > b.most || len(body) > b.room {
		b.room += len(m.body)
		m.body, m.lost = nil, true
		return
	}
	m.body = append(m.body, body...)
	b.room -= len(body)
}
