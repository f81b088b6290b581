package interpreter

import "sync"

// kind is one of the two output streams.
type kind int

const (
	stdout kind = iota
	stderr
)

// stream is one output stream of an interpreter. It is fed by one goroutine.
type stream struct {
	*splitter
	context *Context
	kind    kind
}

func newStream(c *Context, k kind) *stream {
	s := &stream{context: c, kind: k}
	s.splitter = newSplitter(c.handle.Key, s.output, s.reply)
	return s
}

// output carries what the program wrote to the call under way, between its begin
// and its end, or keeps it for the next.
func (s *stream) output(data []byte) {
	call := s.context.current.Load()
	if call == nil || !call.within(s.kind) || !call.deliver(event{stream: s.kind, output: data}) {
		s.context.between.add(s.kind, data)
	}
}

// reply carries a piece to the call that it belongs to. One of a call that is
// over is too late for anybody.
func (s *stream) reply(p piece) {
	call := s.context.current.Load()
	if call == nil || p.nonce != call.nonce {
		return
	}
	if s.kind == stdout {
		if m := call.messages.add(p); m != nil {
			call.deliver(event{stream: s.kind, message: m})
		}
	}
	if s.kind == stdout && p.kind == waitKind {
		call.waitOnce.Do(func() { close(call.waits) })
	}
	if p.first && p.last && (p.kind == beginKind || p.kind == endKind) {
		call.mark(s.kind, p.kind)
		call.deliver(event{stream: s.kind, message: &message{kind: p.kind, body: p.body}})
	}
}

// maxBetween bounds what is kept of each stream between calls.
const maxBetween = 64 << 10

// between keeps the last of what comes while no call is under way.
type between struct {
	mu   sync.Mutex
	kept [2][]byte
}

func (b *between) add(k kind, data []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.kept[k] = append(b.kept[k], data...)
	// It is cut when it is twice too long, so that small pieces cost little.
	if len(b.kept[k]) > 2*maxBetween {
		b.kept[k] = last(b.kept[k])
	}
}

func last(data []byte) []byte { return append([]byte(nil), data[max(0, len(data)-maxBetween):]...) }

func (b *between) take() Logs {
	b.mu.Lock()
	defer b.mu.Unlock()
	logs := Logs{string(last(b.kept[stdout])), string(last(b.kept[stderr]))}
	b.kept = [2][]byte{}
	return logs
}
