package access

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"time"

	"aether/engine/state"
	"aether/sandbox"
)

const (
	keyPrefix = "e2b_"
	keyDigits = 40
	idDigits  = 16

	// keysFolder is a directory of records of its own below an engine's: that one is
	// locked for as long as the engine lives, and keys are made meanwhile.
	keysFolder = "access"
	keysKind   = "keys"
	keysFormat = 1

	maxTenant   = 64
	lockTimeout = 10 * time.Second
)

// Key is what is known of a key. The key itself is known to whoever was given it.
type Key struct {
	// ID is the beginning of the key's hash: by it a key is listed and revoked.
	ID string `json:"id"`
	// Tenant is on whose behalf its holder calls, and Operator that its holder sees
	// what is of any tenant.
	Tenant   string    `json:"tenant"`
	Operator bool      `json:"operator,omitempty"`
	Created  time.Time `json:"created"`
	Expires  time.Time `json:"expires,omitzero"`
	Revoked  time.Time `json:"revoked,omitzero"`
}

// keyRecord is a key on disk.
type keyRecord struct {
	Key
	Hash string `json:"sha256"`
}

// Keys are the keys of an engine's state directory. Several programs may use them at
// once, and each sees at once what another has changed: nothing is kept in memory.
type Keys struct {
	path string
	log  *slog.Logger
	view *state.Kind[keyRecord]
	now  func() time.Time
}

// OpenKeys finds the keys of a state directory, which is made if it is missing. Nil
// is the default logger. Errors: Denied if the directory is another user's.
func OpenKeys(ctx context.Context, dir string, log *slog.Logger) (*Keys, error) {
	if log == nil {
		log = slog.Default()
	}
	k := &Keys{path: filepath.Join(dir, keysFolder), log: log, now: time.Now}
	if err := k.change(ctx, func(*state.Kind[keyRecord]) error { return nil }); err != nil {
		return nil, err
	}
	view, err := state.NewKind[keyRecord](state.View(k.path, log), keysKind, keysFormat, nil)
	if err != nil {
		return nil, err
	}
	k.view = view
	return k, nil
}

// change has the records to itself for one change.
func (k *Keys) change(ctx context.Context, do func(*state.Kind[keyRecord]) error) (err error) {
	dir, err := k.lock(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dir.Close()) }()
	kind, err := state.NewKind[keyRecord](dir, keysKind, keysFormat, nil)
	if err != nil {
		return err
	}
	return do(kind)
}

// lock waits for whoever changes a key at the moment.
func (k *Keys) lock(ctx context.Context) (*state.Dir, error) {
	ctx, cancel := context.WithTimeout(ctx, lockTimeout)
	defer cancel()
	for {
		dir, err := state.Open(k.path, k.log)
		if sandbox.ClassOf(err) != sandbox.Conflict {
			return dir, err
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(err, ctx.Err())
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// Create makes a key and says what it is, once: only its hash is kept. A zero expires
// is never.
func (k *Keys) Create(ctx context.Context, tenant string, operator bool, expires time.Time) (secret string, made Key, err error) {
	if !sandbox.IsName(tenant, maxTenant) {
		return "", Key{}, sandbox.Invalidf("tenant", "%.80q must be lower-case letters, digits and dashes, at most %d", tenant, maxTenant)
	}
	now := k.now().UTC()
	if !expires.IsZero() && !expires.After(now) {
		return "", Key{}, sandbox.Invalidf("expires", "%s is not in the future", expires.Format(time.RFC3339))
	}
	random := make([]byte, keyDigits/2)
	rand.Read(random)
	secret = keyPrefix + hex.EncodeToString(random)
	id, hash := digest(secret)
	made = Key{ID: id, Tenant: tenant, Operator: operator, Created: now, Expires: expires.UTC()}
	err = k.change(ctx, func(kind *state.Kind[keyRecord]) error {
		if _, err := kind.Load(id); sandbox.ClassOf(err) != sandbox.NotFound {
			return &sandbox.Error{Class: sandbox.Conflict, Op: "access", Reason: "another key has the id " + id, Retry: true, Err: err}
		}
		return kind.Save(id, keyRecord{Key: made, Hash: hash})
	})
	if err != nil {
		return "", Key{}, fmt.Errorf("create a key: %w", err)
	}
	return secret, made, nil
}

// digest is the id and the hash of a key.
func digest(secret string) (id, hash string) {
	sum := sha256.Sum256([]byte(secret))
	hash = hex.EncodeToString(sum[:])
	return hash[:idDigits], hash
}

// List gives all keys, oldest first, also those that are no longer good. Records that
// are damaged are set aside and logged: their keys open nothing.
func (k *Keys) List(ctx context.Context) (list []Key, err error) {
	err = k.change(ctx, func(kind *state.Kind[keyRecord]) error {
		all, err := kind.All()
		for _, record := range all {
			list = append(list, record.Key)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list the keys: %w", err)
	}
	slices.SortFunc(list, func(a, b Key) int {
		return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.ID, b.ID))
	})
	return list, nil
}

// Revoke has a key open nothing from now on. One that is revoked already stays as it
// is. Errors: NotFound.
func (k *Keys) Revoke(ctx context.Context, id string) error {
	err := k.change(ctx, func(kind *state.Kind[keyRecord]) error {
		record, err := kind.Load(id)
		if err != nil || !record.Revoked.IsZero() {
			return err
		}
		record.Revoked = k.now().UTC()
		return kind.Save(id, record)
	})
	if err != nil {
		return fmt.Errorf("revoke the key %.40q: %w", id, err)
	}
	return nil
}
