package engine

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"aether/engine/state"
	"aether/sandbox"
)

const (
	// keyTime is how long an idempotency key is remembered, and maxKeys how many are.
	keyTime = 24 * time.Hour
	maxKeys = 100_000
	// maxKeySize bounds a key.
	maxKeySize = 255
)

// keyJournal has room for maxKeys answers.
var keyJournal = state.JournalOptions{FileBytes: 8 << 20, Files: 8, Durable: true}

// answered is a call that was made with an idempotency key.
type answered struct {
	Tenant string    `json:"tenant"`
	Key    string    `json:"key"`
	Digest string    `json:"digest"` // of what was asked for
	IDs    []string  `json:"ids"`    // of the sandboxes that were made
	Time   time.Time `json:"time"`

	done chan struct{} // closed when the call has ended; IDs are nil if it failed
}

type keyID struct{ tenant, key string }

// answers are calls by their keys. What was answered is on disk before it is answered.
type answers struct {
	journal *state.Journal

	mu    sync.Mutex
	known map[keyID]*answered
	order []*answered // those that were answered, oldest first
}

func openAnswers(dir *state.Dir) (*answers, error) {
	journal, err := dir.OpenJournal("keys", keyJournal)
	if err != nil {
		return nil, err
	}
	a := &answers{journal: journal, known: map[keyID]*answered{}}
	err = journal.Replay(func(line json.RawMessage) error {
		was := &answered{done: make(chan struct{})}
		if json.Unmarshal(line, was) == nil && len(was.IDs) > 0 {
			close(was.done)
			a.known[was.id()] = was
			a.keep(was)
		}
		return nil
	})
	return a, err
}

func (a *answered) id() keyID { return keyID{a.Tenant, a.Key} }

// keep notes an answer and forgets those that are too old or too many.
func (a *answers) keep(was *answered) {
	a.order = append(a.order, was)
	for len(a.order) > maxKeys || len(a.order) > 0 && time.Since(a.order[0].Time) > keyTime {
		if old := a.order[0]; a.known[old.id()] == old {
			delete(a.known, old.id())
		}
		a.order = a.order[1:]
	}
}

// once does what was asked for, unless that was done with this key before: then it
// gives the same sandboxes. A call that failed is not remembered: it may be tried
// again. Errors: Conflict if the key was used for something else; those of do.
func (a *answers) once(ctx context.Context, who Caller, key string, asked any, do func() ([]string, error)) ([]string, error) {
	if key == "" {
		return do()
	}
	digest, err := digestOf(asked)
	if err != nil {
		return nil, err
	}
	for {
		call, mine := a.begin(who, key, digest)
		if mine {
			return a.finish(call, do)
		}
		if call.Digest != digest {
			return nil, &sandbox.Error{Class: sandbox.Conflict, Op: "engine", Field: "key",
				Reason: "this idempotency key was used for another request", Remedy: "use a key of its own for each request"}
		}
		select {
		case <-call.done:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		if call.IDs != nil {
			return call.IDs, nil
		}
	}
}

// begin gives the call with this key, and whether it is the caller's to do.
func (a *answers) begin(who Caller, key, digest string) (call *answered, mine bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if call := a.known[keyID{who.Tenant, key}]; call != nil {
		return call, false
	}
	call = &answered{Tenant: who.Tenant, Key: key, Digest: digest, done: make(chan struct{})}
	a.known[call.id()] = call
	return call, true
}

// errUnkept says that sandboxes were made whose key could not be written.
var errUnkept = errors.New("the idempotency key could not be kept")

// finish does a call and keeps its answer. If that cannot be kept, the sandboxes are
// given with an error: nobody will be told of them.
func (a *answers) finish(call *answered, do func() ([]string, error)) ([]string, error) {
	ids, err := do()
	made := answered{Tenant: call.Tenant, Key: call.Key, Digest: call.Digest, IDs: ids, Time: time.Now()}
	if err == nil {
		if err = a.journal.Append(made); err != nil {
			err = fmt.Errorf("%w: %w", errUnkept, err)
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	defer close(call.done)
	if err != nil {
		delete(a.known, call.id())
		return ids, err
	}
	call.IDs, call.Time = ids, made.Time
	a.keep(call)
	return ids, nil
}

// digestOf tells one request from another.
func digestOf(asked any) (string, error) {
	text, err := json.Marshal(asked)
	if err != nil {
		return "", fmt.Errorf("engine: %w", err)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), nil
}
