package engine

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"sync"

	"aether/engine/access"
	"aether/sandbox"
)

// snapshotFormat counts up with every change of snapshotRecord that older programs could
// not read.
const snapshotFormat = 1

// snapshotRecord is a snapshot as the engine remembers it.
type snapshotRecord struct {
	Snapshot
	// Number is its place in the order of creation.
	Number uint64 `json:"number"`
	// Changes is the event of its making. It is written with the record, so that it is
	// not lost if the program is killed before it writes it to the journal.
	Changes []Event `json:"changes,omitempty"`
}

// use is what a snapshot takes of its tenant's quota.
func (r snapshotRecord) use() access.Use { return access.Use{Snapshots: 1, DiskBytes: r.Size} }

func (r snapshotRecord) event() Event {
	detail := map[string]string{"snapshot": r.ID, "fidelity": string(r.Fidelity)}
	if r.Name != "" {
		detail["name"] = r.Name
	}
	return Event{Kind: EventSnapshotted, Detail: detail}
}

// stored is a snapshot of the engine. Its record does not change.
type stored struct {
	record snapshotRecord
	grant  *access.Grant

	// using is held for reading by who makes a sandbox of it, and for writing by who
	// deletes it.
	using   sync.RWMutex
	deleted bool
}

func (s *stored) place() uint64 { return s.record.Number }

// SnapshotQuery chooses snapshots. Everything that is set must hold.
type SnapshotQuery struct {
	Tenant   string // of operators; others see their own
	Sandbox  string
	Name     string
	Metadata map[string]string
	// After is the Next of the page before, and Limit the length of a page, 100 at
	// most and by default.
	After string
	Limit int
}

// SnapshotPage is a part of a list, newest first.
type SnapshotPage struct {
	Snapshots []Snapshot `json:"snapshots"`
	// Next is empty on the last page.
	Next string `json:"next,omitempty"`
}

// shelf finds snapshots by id, and lists them newest first from any place on.
type shelf struct {
	mu      sync.RWMutex
	last    uint64 // number of the newest
	byID    map[string]*stored
	all     []*stored // by number
	tenants map[string][]*stored
}

func newShelf() *shelf {
	return &shelf{byID: map[string]*stored{}, tenants: map[string][]*stored{}}
}

// number gives the next snapshot its place in the order of creation.
func (x *shelf) number() uint64 {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.last++
	return x.last
}

func (x *shelf) add(s *stored) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.last = max(x.last, s.record.Number)
	x.byID[s.record.ID] = s
	x.all, x.tenants[s.record.Tenant] = insert(x.all, s), insert(x.tenants[s.record.Tenant], s)
}

func (x *shelf) remove(s *stored) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.byID, s.record.ID)
	x.all = cut(x.all, s)
	if x.tenants[s.record.Tenant] = cut(x.tenants[s.record.Tenant], s); len(x.tenants[s.record.Tenant]) == 0 {
		delete(x.tenants, s.record.Tenant)
	}
}

func noSnapshot(id string) error {
	return &sandbox.Error{Class: sandbox.NotFound, Op: "engine", Field: "snapshot", Reason: "there is no snapshot " + strconv.Quote(clip(id, 80))}
}

// find gives what the caller may know of. Errors: NotFound, also for what is another
// tenant's.
func (x *shelf) find(who Caller, id string) (*stored, error) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	if s := x.byID[id]; s != nil && sees(who, s.record.Tenant) {
		return s, nil
	}
	return nil, noSnapshot(id)
}

// use keeps a snapshot from being deleted until release. Errors: NotFound.
func (x *shelf) use(who Caller, id string) (_ *stored, release func(), err error) {
	s, err := x.find(who, id)
	if err != nil {
		return nil, nil, err
	}
	s.using.RLock()
	if s.deleted {
		s.using.RUnlock()
		return nil, nil, noSnapshot(id)
	}
	return s, s.using.RUnlock, nil
}

// page lists from a place on. What it costs does not grow with what there is, unless
// most of that is not wanted.
func (x *shelf) page(who Caller, q SnapshotQuery) (SnapshotPage, error) {
	before, err := Query{After: q.After, Limit: q.Limit}.after()
	if err != nil {
		return SnapshotPage{}, err
	}
	limit := min(cmp.Or(q.Limit, maxPage), maxPage)
	x.mu.RLock()
	defer x.mu.RUnlock()
	list := x.listOf(who, q.Tenant)
	at, _ := slices.BinarySearchFunc(list, before, byNumber)
	page := SnapshotPage{Snapshots: []Snapshot{}}
	for last := uint64(0); at > 0; at-- {
		s := list[at-1].record
		if !q.wants(s.Snapshot) {
			continue
		}
		if len(page.Snapshots) == limit {
			page.Next = strconv.FormatUint(last, 10)
			break
		}
		page.Snapshots, last = append(page.Snapshots, s.Snapshot), s.Number
	}
	return page, nil
}

// listOf is whose snapshots are looked through.
func (x *shelf) listOf(who Caller, tenant string) []*stored {
	switch {
	case !who.Operator && tenant != "" && tenant != who.Tenant:
		return nil
	case !who.Operator:
		return x.tenants[who.Tenant]
	case tenant != "":
		return x.tenants[tenant]
	}
	return x.all
}

// wants says whether all that is set holds.
func (q SnapshotQuery) wants(s Snapshot) bool {
	return (q.Sandbox == "" || q.Sandbox == s.Sandbox) && (q.Name == "" || q.Name == s.Name) && holds(q.Metadata, s.Metadata)
}

// recoverSnapshots takes over those that the last engine left, and tells of those that it
// was killed before telling of.
func (f *fleet) recoverSnapshots() error {
	all, err := f.snapshots.All()
	if err != nil {
		return fmt.Errorf("engine: %w", err)
	}
	for _, r := range all {
		f.shelf.add(&stored{record: r, grant: f.rights.ledger.Hold(r.Tenant, r.use())})
	}
	told, oldest := f.history.snapshots()
	for _, s := range f.shelf.all {
		if changes := s.record.Changes; len(changes) > 0 && !told[s.record.ID] && changes[0].Time.After(oldest) {
			f.tell(changes)
		}
	}
	return nil
}

// images are those that snapshots need, which were made over them.
func (s *shelf) images() (list []string) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, one := range s.all {
		list = append(list, one.record.Spec.Image)
	}
	return list
}
