package secret

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"aether/engine/state"
	"aether/sandbox"
)

// maxAll bounds the secrets of all tenants together.
const maxAll = 10_000

// ID is what names a secret.
type ID struct{ Tenant, Name string }

func (s Secret) id() ID { return ID{s.Tenant, s.Name} }

func (id ID) compare(other ID) int {
	return cmp.Or(strings.Compare(id.Tenant, other.Tenant), strings.Compare(id.Name, other.Name))
}

// Store is the secrets of a state directory. It may be used by many at once.
type Store struct {
	dir     *state.Dir
	records *state.Kind[record]
	log     *slog.Logger

	keys sync.Mutex // held while a key file is made
	// changing has the files of one secret be changed by one at a time. Secrets share
	// locks, so that there are not as many as names that anybody ever gave.
	changing [64]sync.Mutex

	mu     sync.Mutex
	count  int // with those that are being made
	all    map[ID]*entry
	sorted []ID
}

// entry is what is in memory of a secret.
type entry struct {
	Secret
	give func() // gives back what it takes of its tenant's quota
}

// Open finds the secrets of a state directory. hold is told of each, by its tenant, and
// gives what is called when the secret is gone. Damaged records are set aside and logged.
func Open(dir *state.Dir, log *slog.Logger, hold func(tenant string) (give func())) (*Store, error) {
	s := &Store{dir: dir, log: log, all: map[ID]*entry{}}
	var err error
	if s.records, err = state.NewKind[record](dir, "secrets", format, nil); err != nil {
		return nil, fmt.Errorf("secret: %w", err)
	}
	err = s.records.Each(func(at string, r record) error {
		if at != r.id().record() {
			return s.records.SetAside(at, errors.New("it is the record of another secret"))
		}
		s.count++
		s.enter(r.Secret, hold(r.Tenant))
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("secret: %w", err)
	}
	return s, nil
}

// enter adds a secret to the list. s.mu is held, or nobody else has the store yet.
func (s *Store) enter(told Secret, give func()) {
	s.all[told.id()] = &entry{told, give}
	at, _ := slices.BinarySearchFunc(s.sorted, told.id(), ID.compare)
	s.sorted = slices.Insert(s.sorted, at, told.id())
}

// change locks the files of a secret until unlock.
func (s *Store) change(id ID) (unlock func()) {
	lock := &s.changing[int(id.record()[0])%len(s.changing)]
	lock.Lock()
	return lock.Unlock
}

// Set makes a secret, or replaces its value, and has it on disk. Nil hosts are those that
// it had; others are its hosts from now on, as CheckHosts gives them. So it is with nil
// metadata. take is asked for room in the quota of the tenant before a secret is made.
// Errors: Invalid; Exhausted; Unavailable for a key file that cannot be used; those of take.
func (s *Store) Set(id ID, value Value, hosts []string, metadata map[string]string, take func() (give func(), err error)) (Secret, error) {
	if err := CheckName(id.Name); err != nil {
		return Secret{}, err
	}
	if value.IsZero() {
		return Secret{}, sandbox.Invalidf("value", "it is empty")
	}
	defer s.change(id)()
	now := time.Now().Round(0)
	told, known := s.Find(id)
	if !known {
		told = Secret{Name: id.Name, Tenant: id.Tenant, Created: now}
	}
	// Whoever sees another time knows of another value, also where the clock went back: clients
	// count versions by milliseconds.
	if next := told.Updated.Add(time.Millisecond); known && now.Before(next) {
		now = next
	}
	told.Updated = now
	if hosts != nil {
		told.Hosts = hosts
	}
	if metadata != nil {
		told.Metadata = maps.Clone(metadata)
	}
	if known {
		return told, s.replace(told, value)
	}
	return told, s.make(told, value, take)
}

func (s *Store) replace(told Secret, value Value) error {
	err := s.write(told, value)
	if err != nil {
		// The new file may be there all the same, if it was not synced.
		r, unread := s.records.Load(told.id().record())
		if unread != nil {
			return err
		}
		told = r.Secret
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all[told.id()].Secret = told
	return err
}

// make makes a secret, or leaves nothing.
func (s *Store) make(told Secret, value Value, take func() (func(), error)) error {
	if err := s.reserve(1); err != nil {
		return err
	}
	give, err := take()
	if err != nil {
		return errors.Join(err, s.reserve(-1))
	}
	if err := s.write(told, value); err != nil {
		give()
		return errors.Join(err, s.reserve(-1), s.records.Erase(told.id().record()))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.enter(told, give)
	return nil
}

// reserve counts secrets before they are made. Errors: Exhausted.
func (s *Store) reserve(n int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.count+n > maxAll {
		return &sandbox.Error{Class: sandbox.Exhausted, Op: "secret", Reason: fmt.Sprintf("this daemon keeps %d secrets, and no more", maxAll), Remedy: "remove some that nobody needs"}
	}
	s.count += n
	return nil
}

func (s *Store) write(told Secret, value Value) error {
	k, err := s.key()
	if err != nil {
		return err
	}
	if err := s.records.Save(told.id().record(), k.seal(told, value)); err != nil {
		return fmt.Errorf("secret: %w", err)
	}
	return nil
}

// key reads the key for a new value, which is made if there is none.
func (s *Store) key() (*key, error) {
	s.keys.Lock()
	defer s.keys.Unlock()
	k, err := readKey(s.dir)
	if !errors.Is(err, errNoKey) {
		return k, err
	}
	k, err = makeKey(s.dir)
	s.mu.Lock()
	older := len(s.all)
	s.mu.Unlock()
	if err == nil && older > 0 {
		s.log.Warn("secret: the key file was gone and a new one was made; what is older cannot be decrypted until it is set again", "secrets", older)
	}
	return k, err
}

// Find tells of a secret.
func (s *Store) Find(id ID) (Secret, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.all[id]
	if e == nil {
		return Secret{}, false
	}
	return e.told(), true
}

// told is a copy that nobody can change the hosts or the metadata of.
func (e *entry) told() Secret {
	told := e.Secret
	told.Hosts, told.Metadata = slices.Clone(told.Hosts), maps.Clone(told.Metadata)
	return told
}

// Value decrypts a value, and gives the hosts that it may be sent to. Errors: NotFound;
// Unavailable for one that cannot be decrypted.
func (s *Store) Value(id ID) (value Value, hosts []string, err error) {
	if _, known := s.Find(id); !known {
		return Value{}, nil, NotFound(id.Name)
	}
	r, err := s.records.Load(id.record())
	switch sandbox.ClassOf(err) {
	case sandbox.NotFound:
		return Value{}, nil, NotFound(id.Name) // it was removed just now
	case sandbox.Invalid:
		return Value{}, nil, &sandbox.Error{Class: sandbox.Unavailable, Op: "secret", Reason: "its file is damaged", Remedy: "set the value again", Err: err}
	}
	if err != nil {
		return Value{}, nil, fmt.Errorf("secret: %w", err)
	}
	k, err := readKey(s.dir)
	if err != nil {
		return Value{}, nil, err
	}
	value, err = k.open(id, r)
	return value, r.Hosts, err
}

// NotFound is the error for a secret that there is not.
func NotFound(name string) error {
	reason := "there is no such secret"
	if IsName(name) {
		reason = "there is no secret " + name
	}
	return &sandbox.Error{Class: sandbox.NotFound, Op: "secret", Field: "name", Reason: reason}
}

// Remove removes a secret, from the disk too, whether or not its value can be decrypted.
// Errors: NotFound.
func (s *Store) Remove(id ID) error {
	defer s.change(id)()
	if _, known := s.Find(id); !known {
		return NotFound(id.Name)
	}
	if err := s.records.Erase(id.record()); err != nil {
		return fmt.Errorf("secret: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all[id].give()
	delete(s.all, id)
	s.count--
	if at, found := slices.BinarySearchFunc(s.sorted, id, ID.compare); found {
		s.sorted = slices.Delete(s.sorted, at, at+1)
	}
	return nil
}

// Page lists at most so many of the secrets after an id whose tenants are wanted, by tenant
// and name, and says whether there are more.
func (s *Store) Page(after ID, limit int, wants func(tenant string) bool) (page []Secret, more bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at, found := slices.BinarySearchFunc(s.sorted, after, ID.compare)
	if found {
		at++
	}
	page = []Secret{}
	for _, id := range s.sorted[at:] {
		switch {
		case !wants(id.Tenant):
		case len(page) == limit:
			return page, true
		default:
			page = append(page, s.all[id].told())
		}
	}
	return page, false
}
