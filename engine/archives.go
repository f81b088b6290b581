package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"sync"
	"time"

	"aether/engine/access"
	"aether/engine/state"
	"aether/sandbox"
)

const (
	archiveFormat = 1
	// maxArchive bounds an archive as it is sent.
	maxArchive = 4 << 30
	// archiveTime is how long an archive stays that no template is made of.
	archiveTime = 24 * time.Hour
)

// archiveRecord is an archive of files that steps of recipes put in place. Templates may have to be prepared anew
// after a restart: as long as one names it, it stays.
type archiveRecord struct {
	Tenant string    `json:"tenant"`
	Name   string    `json:"name"`
	Size   int64     `json:"size_bytes"`
	Used   time.Time `json:"used"`
}

type archive struct {
	archiveRecord
	id    string
	grant *access.Grant
}

type archiveKey struct{ tenant, name string }

// archives are those of all tenants.
type archives struct {
	fleet   *fleet
	records *state.Kind[archiveRecord]

	mu  sync.Mutex
	all map[archiveKey]*archive
}

// archived is what names an archive: its sender chooses, as by a digest of what is in it.
var archived = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,127}$`) })

func isArchiveName(text string) bool { return archived().MatchString(text) }

func openArchives(f *fleet) (*archives, error) {
	records, err := state.NewKind[archiveRecord](f.dir, "archives", archiveFormat, nil)
	return &archives{fleet: f, records: records, all: map[archiveKey]*archive{}}, err
}

// recover takes over the archives of the last engine. Of two of one name, as a kill can
// leave them, the later one counts.
func (a *archives) recover() error {
	found, err := a.records.All()
	for id, r := range found {
		one := &archive{r, id, a.fleet.rights.ledger.Hold(r.Tenant, access.Use{DiskBytes: r.Size})}
		if other := a.all[one.key()]; other != nil {
			if other.Used.After(one.Used) {
				one, other = other, one
			}
			a.remove(other)
		}
		a.all[one.key()] = one
	}
	return err
}

func (r archiveRecord) key() archiveKey { return archiveKey{r.Tenant, r.Name} }

func (a *archives) path(id string) string { return filepath.Join(a.records.Home(id), stateName) }

// open gives the bytes of an archive. Errors: NotFound.
func (a *archives) open(tenant, name string) (io.ReadCloser, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	one := a.all[archiveKey{tenant, name}]
	if one == nil {
		return nil, noArchive(name)
	}
	return os.Open(a.path(one.id))
}

func noArchive(name string) error {
	return &sandbox.Error{Class: sandbox.NotFound, Op: "archive " + clip(name, 80), Reason: "there is none of this name", Remedy: "send it"}
}

// noArchives are those of an engine that keeps nothing.
func noArchives(name string) (io.ReadCloser, error) { return nil, noArchive(name) }

// HasArchive says whether an archive of the caller's tenant is there, and has it stay for a
// day at least.
func (e *Engine) HasArchive(ctx context.Context, who Caller, name string) (bool, error) {
	_, release, err := e.enterFleet(ctx)
	if err != nil {
		return false, err
	}
	defer release()
	a := e.fleet.archives
	a.mu.Lock()
	defer a.mu.Unlock()
	one := a.all[archiveKey{who.Tenant, name}]
	if one == nil {
		return false, nil
	}
	one.Used = time.Now().Round(0)
	return true, a.records.Note(one.id, one.archiveRecord)
}

// KeepArchive keeps a tar archive, which may be compressed by gzip, for the steps of recipes
// of the caller's tenant, instead of one with its name. One that no template is made of and
// nobody asks for goes after a day. Errors: Invalid; Exhausted.
func (e *Engine) KeepArchive(ctx context.Context, who Caller, name string, from io.Reader) error {
	if !isArchiveName(name) || !sandbox.IsName(who.Tenant, maxName) {
		return sandbox.Invalidf("archive", "%.80q cannot name an archive", name)
	}
	_, release, err := e.enterFleet(ctx)
	if err != nil {
		return err
	}
	defer release()
	a := e.fleet.archives
	a.collect()
	if err := a.keep(who, name, from); err != nil {
		return fmt.Errorf("engine: keep archive: %w", err)
	}
	return nil
}

func (a *archives) keep(who Caller, name string, from io.Reader) (err error) {
	one := &archive{archiveRecord{who.Tenant, name, 0, time.Now().Round(0)}, newID(), nil}
	if _, err := a.records.Begin(one.id); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, a.records.Remove(one.id))
		}
	}()
	if one.Size, err = writeArchive(a.path(one.id), from); err != nil {
		return state.Full(err)
	}
	if one.grant, err = a.fleet.rights.take(who, who.Tenant, access.Use{DiskBytes: one.Size}); err != nil {
		return err
	}
	if err := a.records.Save(one.id, one.archiveRecord); err != nil {
		one.grant.Give()
		return err
	}
	a.mu.Lock()
	before := a.all[one.key()]
	a.all[one.key()] = one
	a.mu.Unlock()
	if before != nil {
		a.remove(before)
	}
	return nil
}

func writeArchive(path string, from io.Reader) (size int64, err error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return 0, err
	}
	size, err = io.Copy(file, io.LimitReader(from, maxArchive+1))
	if err = errors.Join(err, file.Sync(), file.Close()); err == nil && size > maxArchive {
		return size, sandbox.Invalidf("archive", "it is over %d bytes", int64(maxArchive))
	}
	return size, err
}

// remove removes an archive that nobody finds any more. Who reads it reads on.
func (a *archives) remove(one *archive) {
	if err := a.records.Remove(one.id); err != nil {
		a.fleet.engine.log.Error("engine: an archive could not be removed", "archive", one.id, "err", err)
	}
	one.grant.Give()
}

// collect removes the archives that no template is made of and that nobody has asked for
// lately.
func (a *archives) collect() {
	named := map[archiveKey]bool{}
	for _, v := range a.fleet.catalogue.each() {
		for _, step := range v.record.Recipe.Steps {
			named[archiveKey{v.key.tenant, step.Files.Archive}] = true
		}
	}
	a.mu.Lock()
	var over []*archive
	for key, one := range a.all {
		if !named[key] && time.Since(one.Used) > archiveTime {
			over = append(over, one)
			delete(a.all, key)
		}
	}
	a.mu.Unlock()
	for _, one := range over {
		a.remove(one)
	}
}
