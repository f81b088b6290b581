package engine

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"time"

	"aether/engine/access"
	"aether/engine/state"
)

const (
	// layerRecordFormat counts up with every change of layerRecord that older programs
	// could not read.
	layerRecordFormat = 1
	// layerUseKnown is how exactly it is remembered over a restart when a layer was used.
	layerUseKnown = time.Minute
)

// layerRecord is a layer as the engine remembers it: the files of a sandbox after the
// first commands of a recipe.
type layerRecord struct {
	ID     string `json:"id"`
	Tenant string `json:"tenant"`
	Driver string `json:"driver"`
	// Key names all that the files come of; see layerKeys.
	Key string `json:"key"`
	// Step is how many commands have run, and Command the last of them, shortened.
	Step    int    `json:"step"`
	Command string `json:"command"`
	// Below is the id of the layer that it was made over, if there is one, and Size that of
	// the files which that does not have too.
	Below   string    `json:"below,omitempty"`
	Size    int64     `json:"size_bytes"`
	Created time.Time `json:"created"`
	Used    time.Time `json:"used"`
}

func (r layerRecord) use() access.Use { return access.Use{DiskBytes: r.Size} }

// layer is a layer that is whole and on disk. Its fields are guarded by the mu of layers.
type layer struct {
	record layerRecord
	noted  time.Time // the Used that is on disk
	grant  *access.Grant
	users  int  // preparations that need it
	gone   bool // nobody finds it any more; it is removed with its last user
}

// layers keeps what commands of recipes left, for the next preparation that begins alike.
// A layer belongs to one tenant: its key does.
type layers struct {
	fleet   *fleet
	records *state.Kind[layerRecord]
	flights flights

	mu    sync.Mutex
	byKey map[string]*layer
	// unable are the drivers that have said that they cannot keep files alone.
	unable map[string]bool
}

func openLayers(f *fleet) (*layers, error) {
	records, err := state.NewKind[layerRecord](f.dir, "layers", layerRecordFormat, nil)
	return &layers{fleet: f, records: records, flights: flights{byKey: map[string]*flight{}}, byKey: map[string]*layer{}, unable: map[string]bool{}}, err
}

// recover takes over the layers of the last engine. Of two with one key, as a kill can
// leave them, the later one counts.
func (l *layers) recover() error {
	all, err := l.records.All()
	if err != nil {
		return err
	}
	for id, r := range all {
		if _, there := all[r.Below]; r.Below != "" && !there {
			r = l.alone(r) // the last engine was killed while it removed the one below
			all[id] = r
		}
		one := &layer{record: r, noted: r.Used, grant: l.fleet.rights.ledger.Hold(r.Tenant, r.use())}
		if _, err := os.Stat(l.dir(one)); err != nil {
			l.remove(one)
			continue
		}
		if other := l.byKey[r.Key]; other == nil || other.record.Created.Before(r.Created) {
			l.byKey[r.Key], one = one, other
		}
		if one != nil {
			l.remove(one)
		}
	}
	return nil
}

// dir is what the driver has written of a layer.
func (l *layers) dir(one *layer) string { return l.stateOf(one.record.ID) }

func (l *layers) stateOf(id string) string { return filepath.Join(l.records.Home(id), stateName) }

// hold finds the layers of the first commands, of which the last is the one that has the
// most of them, and has them stay until release.
func (l *layers) hold(keys []string) (held []*layer, commands int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for commands = len(keys); commands > 0 && l.byKey[keys[commands-1]] == nil; {
		commands--
	}
	now := time.Now().Round(0)
	for _, key := range keys[:commands] {
		if one := l.byKey[key]; one != nil {
			one.users++
			l.touch(one, now)
			held = append(held, one)
		}
	}
	return held, commands
}

// touch notes that a layer is used. l.mu is held.
func (l *layers) touch(one *layer, now time.Time) {
	one.record.Used = now
	if now.Sub(one.noted) < layerUseKnown {
		return
	}
	if err := l.records.Note(one.record.ID, one.record); err != nil {
		l.fleet.engine.log.Warn("engine: when a layer was used could not be written", "layer", one.record.ID, "err", err)
		return
	}
	one.noted = now
}

// release lets go of layers that hold or keep gave. They were used until now, all of them.
func (l *layers) release(held []*layer) {
	l.mu.Lock()
	var over []*layer
	now := time.Now().Round(0)
	for _, one := range held {
		if one.users--; one.users == 0 && one.gone {
			over = append(over, one)
		} else if !one.gone {
			l.touch(one, now)
		}
	}
	l.mu.Unlock()
	for _, one := range over {
		l.remove(one)
	}
}

// add has a layer be found from now on, instead of another with its key. It is held for
// the caller.
func (l *layers) add(one *layer) {
	l.mu.Lock()
	before := l.byKey[one.record.Key]
	one.users, l.byKey[one.record.Key] = 1, one
	l.mu.Unlock()
	if before != nil {
		l.drop(before)
	}
}

// drop has a layer not be found any more, and removes it when nobody uses it.
func (l *layers) drop(one *layer) {
	l.mu.Lock()
	if l.byKey[one.record.Key] == one {
		delete(l.byKey, one.record.Key)
	}
	now := one.users == 0 && !one.gone
	one.gone = true
	l.mu.Unlock()
	if now {
		l.remove(one)
	}
}

// remove removes a layer that nobody finds or uses.
func (l *layers) remove(one *layer) {
	l.inherit(one)
	if err := l.records.Remove(one.record.ID); err != nil {
		l.fleet.engine.log.Error("engine: a layer could not be removed", "layer", one.record.ID, "err", err)
	}
	l.fleet.sweeper.note(one.record.Driver)
	one.grant.Give()
}

// inherit has the layers that were made over one be charged for what they have of it,
// before that is removed.
func (l *layers) inherit(one *layer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, above := range l.byKey {
		if above.record.Below != one.record.ID {
			continue
		}
		alone := l.alone(above.record) // of which the rest does not change: who uses the layer reads it
		above.record.Below, above.record.Size = alone.Below, alone.Size
		if err := above.grant.Change(access.Quota{}, above.record.use()); err != nil {
			l.fleet.engine.log.Error("engine: a layer could not be charged", "layer", above.record.ID, "err", err)
		}
	}
}

// alone is the record of a layer whose files are all its own from now on.
func (l *layers) alone(r layerRecord) layerRecord {
	r.Below = ""
	size, err := sizeOf(l.stateOf(r.ID))
	if err == nil {
		r.Size = size
		err = l.records.Note(r.ID, r)
	}
	if err != nil {
		l.fleet.engine.log.Error("engine: how much of a layer is its own could not be written", "layer", r.ID, "err", err)
	}
	return r
}

// begin makes the place for the files of a layer. Without a record, the next engine
// removes it.
func (l *layers) begin(id string) (dir string, err error) {
	home, err := l.records.Begin(id)
	if err != nil {
		return "", err
	}
	dir = filepath.Join(home, stateName)
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", errors.Join(err, l.records.Remove(id))
	}
	return dir, nil
}
