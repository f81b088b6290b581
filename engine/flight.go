package engine

import "sync"

// outcome is how the making of a layer has ended.
type outcome int

const (
	// layerKept: it is there.
	layerKept outcome = iota
	// layerUnkept: the command has run, and what it left cannot be kept.
	layerUnkept
	// layerFailed: the command has failed.
	layerFailed
	// layerGivenUp: whoever made it was cancelled, or could not; somebody else takes over.
	layerGivenUp
)

// flight is the making of one layer. Whoever needs the same layer waits for it.
type flight struct {
	key     string
	command string
	done    chan struct{}
	// Once done is closed:
	outcome outcome
	err     error // of a command that has failed
}

// flights are those that are under way, by the keys of their layers.
type flights struct {
	mu    sync.Mutex
	byKey map[string]*flight
}

// begin gives the flight of a key, and whether the caller is who makes the layer. Then end
// must follow.
func (f *flights) begin(key, command string) (_ *flight, mine bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if other := f.byKey[key]; other != nil {
		return other, false
	}
	own := &flight{key: key, command: command, done: make(chan struct{})}
	f.byKey[key] = own
	return own, true
}

func (f *flights) end(own *flight, how outcome, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.byKey, own.key)
	own.outcome, own.err = how, err
	close(own.done)
}
