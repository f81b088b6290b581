package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"time"

	"aether/engine/state"
	"aether/sandbox"
)

// maxHistory is how many events are remembered.
const maxHistory = 8192

// eventJournal holds more than maxHistory of the largest events that are usual.
var eventJournal = state.JournalOptions{FileBytes: 2 << 20, Files: 4}

// history is the last events, and wakes those who wait for the next.
type history struct {
	journal *state.Journal

	mu   sync.Mutex
	list []Event // of consecutive numbers
	last uint64
	next chan struct{} // closed when there is another
	// unwritten are events that the journal does not have yet, for its disk was full.
	unwritten []Event
}

// openHistory goes on where the journal ends.
func openHistory(dir *state.Dir) (*history, error) {
	journal, err := dir.OpenJournal("events", eventJournal)
	if err != nil {
		return nil, err
	}
	h := &history{journal: journal, next: make(chan struct{})}
	err = journal.Replay(func(line json.RawMessage) error {
		var event Event
		if json.Unmarshal(line, &event) == nil && event.Number > h.last {
			h.add(event)
		}
		return nil
	})
	return h, err
}

// add keeps an event. After a gap, as a full disk leaves one, nothing before it counts.
func (h *history) add(event Event) {
	if event.Number != h.last+1 {
		h.list = nil
	}
	h.list, h.last = append(h.list, event), event.Number
	if len(h.list) >= 2*maxHistory {
		h.list = slices.Clone(h.list[len(h.list)-maxHistory:])
	}
}

// publish numbers events, writes them and wakes who waits. The writing is in the order
// of the numbers and not synced, so that it takes microseconds. Events that cannot be
// written are told all the same, and written with the next; the error is for the log.
func (h *history) publish(events []Event) error {
	if len(events) == 0 {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, event := range events {
		event.Number = h.last + 1
		h.add(event)
		h.unwritten = append(h.unwritten, event)
	}
	close(h.next)
	h.next = make(chan struct{})
	return h.flush()
}

// flush writes what the journal does not have yet. h.mu is held.
func (h *history) flush() error {
	for len(h.unwritten) > 0 {
		if err := h.journal.Append(h.unwritten[0]); err != nil {
			h.unwritten = h.unwritten[max(0, len(h.unwritten)-maxHistory):]
			return err
		}
		h.unwritten = h.unwritten[1:]
	}
	h.unwritten = nil
	return nil
}

// shut writes what it can and closes the journal.
func (h *history) shut() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return errors.Join(h.flush(), h.journal.Close())
}

// after gives what is known after a number, and what to wait for if that is nothing.
func (h *history) after(number uint64) ([]Event, <-chan struct{}, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	first := h.last - uint64(len(h.list)) + 1
	switch {
	case number > h.last:
		return nil, nil, sandbox.Invalidf("after", "%d is not the number of an event: the last is %d", number, h.last)
	case number == 0:
		number = first - 1
	case number+1 < first:
		return nil, nil, &sandbox.Error{Class: sandbox.NotFound, Op: "engine: events", Field: "after",
			Reason: fmt.Sprintf("the events after %d are forgotten up to %d", number, first-1), Remedy: "list the sandboxes, then follow events from 0"}
	}
	return slices.Clone(h.list[number+1-first:]), h.next, nil
}

// Events gives the history after a number, zero for all of it, and then what happens,
// until the context ends; for one that has ended already, the history alone. A tenant is given what is its own, an operator everything.
// Whoever reads so slowly that the history is over is told so. Errors: Invalid for a
// number that is none yet; NotFound for one whose next are forgotten.
func (e *Engine) Events(ctx context.Context, who Caller, after uint64) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		if e.fleet == nil {
			yield(Event{}, errNoState)
			return
		}
		for {
			events, next, err := e.fleet.history.after(after)
			if err != nil {
				yield(Event{}, err)
				return
			}
			for _, event := range events {
				after = event.Number
				if sees(who, event.Tenant) && !yield(event, nil) {
					return
				}
			}
			if len(events) > 0 {
				continue
			}
			select {
			case <-next:
			case <-ctx.Done():
				return
			case <-e.life.Done():
				return
			}
		}
	}
}

// missing are those of a record's last changes that were not written to the journal,
// because the program was killed in between. last is the last event of each sandbox,
// and oldest when the journal begins.
func missing(changes []Event, last map[string]Event, oldest time.Time) (list []Event) {
	for _, change := range changes {
		told, known := last[change.Sandbox]
		if known && change.Time.After(told.Time) || !known && change.Time.After(oldest) {
			list = append(list, change)
		}
	}
	return list
}

// snapshots are those that events tell the making of, and when the oldest event was.
func (h *history) snapshots() (told map[string]bool, oldest time.Time) {
	told = map[string]bool{}
	for i, event := range h.list {
		if i == 0 {
			oldest = event.Time
		}
		if event.Kind == EventSnapshotted {
			told[event.Detail["snapshot"]] = true
		}
	}
	return told, oldest
}

// told is the last event of each sandbox, and when the oldest that is known was.
func (h *history) told() (last map[string]Event, oldest time.Time) {
	last = map[string]Event{}
	for i, event := range h.list {
		if i == 0 {
			oldest = event.Time
		}
		last[event.Sandbox] = event
	}
	return last, oldest
}
