package guest

import (
	"io"
	"sync"

	pb "aether/guest/wire/process"
)

// output is what a process has written and not everybody has taken. It never
// holds more than its limit:
//
//   - While somebody reads, a process that writes faster than the slowest reader
//     takes has to wait, as on a pipe, so that no reader misses a byte.
//   - While nobody reads, the oldest output is dropped. A process whose client
//     has gone must neither block nor grow, and what it wrote last is what tells
//     a client that comes back how it fares.
//
// A reader starts with the oldest output that is still kept.
type output struct {
	limit int

	mu      sync.Mutex
	room    sync.Cond // signalled when output was taken or a reader has left
	chunks  []chunk
	first   uint64 // the number of chunks[0]
	size    int
	readers map[*reader]struct{}
	closed  bool
}

// chunk is one piece of output, as the event that carries it.
type chunk struct {
	event *pb.ProcessEvent
	size  int
}

// chunkCost is charged for every piece beside its bytes, so that a process that
// writes single bytes cannot hold much more memory than the limit.
const chunkCost = 256

type reader struct {
	out  *output
	next uint64
	wake chan struct{}
}

func newOutput(limit int) *output {
	o := &output{limit: limit, readers: map[*reader]struct{}{}}
	o.room.L = &o.mu
	return o
}

// append adds a piece, waiting for readers or dropping what nobody reads.
func (o *output) append(event *pb.ProcessEvent, bytes int) {
	c := chunk{event, bytes + chunkCost}
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.size > 0 && o.size+c.size > o.limit {
		if len(o.readers) > 0 {
			o.room.Wait()
			continue
		}
		o.drop(1)
	}
	o.chunks = append(o.chunks, c)
	o.size += c.size
	o.wakeAll()
}

// close says that nothing more will come.
func (o *output) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
	o.wakeAll()
}

func (o *output) wakeAll() {
	for r := range o.readers {
		select {
		case r.wake <- struct{}{}:
		default:
		}
	}
}

func (o *output) drop(n int) {
	for i := range n {
		o.size -= o.chunks[i].size
		o.chunks[i] = chunk{}
	}
	o.chunks = o.chunks[n:]
	o.first += uint64(n)
	if len(o.chunks) == 0 {
		o.chunks = nil // lets go of what the slice has moved past
	}
}

// kept is what not everybody has taken, and whether nothing more will come.
func (o *output) kept() (events []*pb.ProcessEvent, closed bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, c := range o.chunks {
		events = append(events, c.event)
	}
	return events, o.closed
}

// attach adds a reader.
func (o *output) attach() *reader {
	o.mu.Lock()
	defer o.mu.Unlock()
	r := &reader{out: o, next: o.first, wake: make(chan struct{}, 1)}
	o.readers[r] = struct{}{}
	return r
}

// detach removes a reader. What it did not take is kept.
func (r *reader) detach() {
	r.out.mu.Lock()
	defer r.out.mu.Unlock()
	delete(r.out.readers, r)
	r.out.room.Broadcast()
}

// peek gives the next piece without taking it: nil if there is none yet, io.EOF
// if there will be none.
func (r *reader) peek() (*pb.ProcessEvent, error) {
	r.out.mu.Lock()
	defer r.out.mu.Unlock()
	if at := r.next - r.out.first; at < uint64(len(r.out.chunks)) {
		return r.out.chunks[at].event, nil
	}
	if r.out.closed {
		return nil, io.EOF
	}
	return nil, nil
}

// take takes the piece that peek gave, once it was delivered. For a reader that
// was detached meanwhile it is not: the next reader gets the piece.
func (r *reader) take() bool {
	r.out.mu.Lock()
	defer r.out.mu.Unlock()
	if _, attached := r.out.readers[r]; !attached {
		return false
	}
	r.next++
	slowest := r.next
	for other := range r.out.readers {
		slowest = min(slowest, other.next)
	}
	if n := slowest - r.out.first; n > 0 {
		r.out.drop(int(n))
		r.out.room.Broadcast()
	}
	return true
}
