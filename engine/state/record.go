package state

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"aether/sandbox"
)

const (
	recordName = "record"
	draftName  = "record.new"

	// maxRecord bounds a record; a larger one is damaged.
	maxRecord = 4 << 20
	maxID     = 64
)

// header is the first line of a record.
type header struct {
	Format   int    `json:"format"`
	Checksum uint32 `json:"crc32c"`
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Kind is records of one type. Its methods may be called by many at once, but not
// for one id.
type Kind[R any] struct{ kind }

// kind is what a Kind does without knowing its type. It is apart because the compiler makes
// the methods of a generic type anew in every package that sees one, however far from here.
type kind struct {
	dir  *Dir
	name string
	// format is that of records which are written now; older ones are brought to the
	// next by the step of their number.
	format int
	steps  map[int]Migration
}

// Migration brings the JSON of a record from one format to the next.
type Migration func(json.RawMessage) (json.RawMessage, error)

// NewKind is the records of a name in a directory. format counts up with every change
// that older programs could not read, and steps has one for each format before it.
func NewKind[R any](d *Dir, name string, format int, steps map[int]Migration) (*Kind[R], error) {
	for old := 1; old < format; old++ {
		if steps[old] == nil {
			return nil, fmt.Errorf("state: %s: nothing brings records from format %d to %d", name, old, old+1)
		}
	}
	k := &Kind[R]{kind{dir: d, name: name, format: format, steps: steps}}
	if err := os.MkdirAll(k.path(), 0o700); err != nil {
		return nil, fmt.Errorf("state: %s: %w", name, err)
	}
	return k, nil
}

func (k *kind) path() string { return filepath.Join(k.dir.path, k.name) }

// Home is the directory of a record, for what else belongs to it. It exists from Begin
// or the first Save or Note on, and is removed with the record.
func (k *kind) Home(id string) string { return filepath.Join(k.path(), id) }

// Begin makes the Home of a record that is not yet, for what has to be on disk before it
// is. Without a record, All removes it.
func (k *kind) Begin(id string) (home string, err error) {
	if !sandbox.IsName(id, maxID) {
		return "", sandbox.Invalidf("id", "%.80q cannot name a record", id)
	}
	home = k.Home(id)
	if err = k.dir.disk.mkdir(home); err == nil {
		err = k.dir.disk.sync(k.path())
	}
	if err != nil {
		return "", fmt.Errorf("state: begin %s %s: %w", k.name, id, Full(err))
	}
	return home, nil
}

// Save replaces a record, or makes the first, and has it on disk.
func (k *Kind[R]) Save(id string, record R) error { return k.put(id, record, true) }

// Note is Save that does not wait for the disk.
func (k *Kind[R]) Note(id string, record R) error { return k.put(id, record, false) }

func (k *kind) put(id string, record any, durable bool) error {
	if !sandbox.IsName(id, maxID) {
		return sandbox.Invalidf("id", "%.80q cannot name a record", id)
	}
	contents, err := encode(k.format, record)
	if err == nil {
		err = k.replace(k.Home(id), contents, durable)
	}
	if err != nil {
		return fmt.Errorf("state: keep %s %s: %w", k.name, id, Full(err))
	}
	return nil
}

func (k *kind) replace(home string, contents []byte, durable bool) error {
	disk := k.dir.disk
	draft := filepath.Join(home, draftName)
	err := disk.write(draft, contents, durable)
	if errors.Is(err, fs.ErrNotExist) {
		if err = disk.mkdir(home); err == nil {
			err = disk.write(draft, contents, durable)
		}
	}
	if err == nil {
		err = disk.rename(draft, filepath.Join(home, recordName))
	}
	if err == nil && durable {
		// Its home may have been made by a Note, which waited for nothing.
		err = errors.Join(disk.sync(home), disk.sync(k.path()))
	}
	return err
}

// Full is an error as it is, or what a caller can do about it if it is that of a disk
// without room, whoever wrote there. Errors: Exhausted.
func Full(err error) error {
	if isFull(err) && sandbox.ClassOf(err) == sandbox.Internal {
		return &sandbox.Error{Class: sandbox.Exhausted, Reason: "the disk of the state directory is full", Remedy: "make room (aether prune), then try again", Retry: true, Err: err}
	}
	return err
}

func encode(format int, record any) ([]byte, error) {
	body, err := json.Marshal(record)
	if err != nil {
		return nil, err
	}
	if len(body) > maxRecord {
		return nil, &sandbox.Error{Class: sandbox.Exhausted, Reason: fmt.Sprintf("a record of %d bytes is over %d", len(body), maxRecord)}
	}
	head, err := json.Marshal(header{format, crc32.Checksum(body, castagnoli)})
	if err != nil {
		return nil, err
	}
	return bytes.Join([][]byte{head, body, nil}, []byte("\n")), nil
}

// Load reads a record. Errors: NotFound; Invalid for one that is damaged.
func (k *Kind[R]) Load(id string) (record R, err error) {
	err = k.load(id, &record)
	return record, err
}

func (k *kind) load(id string, record any) error {
	if !sandbox.IsName(id, maxID) {
		return sandbox.Invalidf("id", "%.80q cannot name a record", id)
	}
	contents, err := readBounded(filepath.Join(k.Home(id), recordName))
	if errors.Is(err, fs.ErrNotExist) {
		return &sandbox.Error{Class: sandbox.NotFound, Op: "state", Reason: fmt.Sprintf("there is no %s %s", k.name, id)}
	}
	if err == nil {
		err = k.decode(contents, record)
	}
	if err != nil {
		return &sandbox.Error{Class: sandbox.Invalid, Op: "state: read " + k.name + " " + id, Err: err}
	}
	return nil
}

func (k *kind) decode(contents []byte, record any) error {
	first, body, found := bytes.Cut(contents, []byte("\n"))
	var head header
	if !found || json.Unmarshal(first, &head) != nil {
		return errors.New("it has no header")
	}
	body = bytes.TrimSuffix(body, []byte("\n"))
	if sum := crc32.Checksum(body, castagnoli); sum != head.Checksum {
		return fmt.Errorf("its checksum is %d and not %d", sum, head.Checksum)
	}
	if head.Format < 1 || head.Format > k.format {
		return fmt.Errorf("its format %d is not one of 1 to %d: a newer program wrote it", head.Format, k.format)
	}
	for format := head.Format; format < k.format; format++ {
		next, err := k.steps[format](body)
		if err != nil {
			return fmt.Errorf("bring it from format %d to %d: %w", format, format+1, err)
		}
		body = next
	}
	return json.Unmarshal(body, record)
}

// readBounded reads a file that may be anything by now.
func readBounded(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > maxRecord+4096 {
		return nil, fmt.Errorf("it is not a file of at most %d bytes", maxRecord)
	}
	contents := make([]byte, info.Size())
	n, err := file.ReadAt(contents, 0)
	if int64(n) == info.Size() {
		err = nil
	}
	return contents[:n], err
}

// All reads every record, by id. Those that are damaged are set aside and logged; a
// place that was begun and never had a record is removed.
func (k *Kind[R]) All() (map[string]R, error) {
	all := map[string]R{}
	err := k.Each(func(id string, record R) error {
		all[id] = record
		return nil
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}

// Each is All for records that need not be in memory at once: it gives one after the
// other, until visit fails.
func (k *Kind[R]) Each(visit func(id string, record R) error) error {
	var record R
	load := func(id string) (err error) { record, err = k.Load(id); return err }
	return k.each(load, func(id string) error { return visit(id, record) })
}

// each loads one record after the other, and visits those that are whole.
func (k *kind) each(load, visit func(id string) error) error {
	entries, err := os.ReadDir(k.path())
	if err != nil {
		return fmt.Errorf("state: list %s: %w", k.name, err)
	}
	for _, entry := range entries {
		id := entry.Name()
		err := load(id)
		switch sandbox.ClassOf(err) {
		case sandbox.NotFound:
			err = k.Remove(id)
		case sandbox.Invalid:
			err = k.SetAside(id, err)
		default:
			if err == nil {
				err = visit(id)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// SetAside moves what is damaged out of the way, with the reason beside it, and logs it.
func (k *kind) SetAside(id string, why error) error {
	k.dir.log.Error("state: a record is damaged and was set aside", "kind", k.name, "id", id, "err", why)
	name := fmt.Sprintf("%s-%.64s-%d", k.name, filepath.Base(id), time.Now().UnixNano())
	to := filepath.Join(k.dir.path, damagedName, name)
	err := k.dir.disk.rename(k.Home(id), to)
	if err == nil {
		err = k.dir.disk.write(to+".reason", []byte(why.Error()+"\n"), false)
	}
	if err != nil {
		return fmt.Errorf("state: set %s %s aside: %w", k.name, id, err)
	}
	return nil
}

// Remove removes a record and everything in its Home. It is gone at once, as a whole;
// one that does not exist is no error.
func (k *kind) Remove(id string) error { return k.remove(id, false) }

// Erase is Remove that waits for the disk: no loss of power brings the record back.
func (k *kind) Erase(id string) error { return k.remove(id, true) }

func (k *kind) remove(id string, durable bool) error {
	out := filepath.Join(k.dir.removed(), fmt.Sprintf("%s-%.64s-%d", k.name, filepath.Base(id), time.Now().UnixNano()))
	err := k.dir.disk.rename(k.Home(id), out)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil && durable {
		err = errors.Join(k.dir.disk.sync(k.path()), k.dir.disk.sync(k.dir.removed()))
	}
	if err == nil {
		err = k.dir.disk.removeAll(out)
	}
	if err != nil {
		return fmt.Errorf("state: remove %s %s: %w", k.name, id, Full(err))
	}
	return nil
}
