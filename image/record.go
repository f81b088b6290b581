package image

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"

	"aether/internal/host/storedir"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// record is what the store knows of a reference.
type record struct {
	Ref    string    `json:"ref"`
	Digest string    `json:"digest"`
	Layers []v1.Hash `json:"layers"`
	Config Config    `json:"config"`
}

func (s *Store) recordFile(ref string) string {
	sum := sha256.Sum256([]byte(ref))
	return filepath.Join(s.dir, "images", hex.EncodeToString(sum[:]))
}

// saveRecord makes the record unless a layer of it has gone meanwhile.
func (s *Store) saveRecord(ctx context.Context, rec record) (bool, error) {
	if same, err := s.isSaved(rec); same || err != nil {
		return same, err
	}
	lock, err := s.lockRecords(ctx)
	if err != nil {
		return false, err
	}
	there, err := s.hasLayers(rec)
	if there && err == nil {
		err = s.writeRecord(rec)
	}
	return there, errors.Join(err, lock.Release())
}

// lockRecords keeps records and the set of layers in step.
func (s *Store) lockRecords(ctx context.Context) (*storedir.Lock, error) {
	return storedir.Acquire(ctx, s.lockFile("images"))
}

func (s *Store) isSaved(rec record) (bool, error) {
	old, ok, err := s.loadRecord(rec.Ref)
	return ok && reflect.DeepEqual(old, rec), err
}

func (s *Store) writeRecord(rec record) error {
	text, err := json.Marshal(rec)
	if err != nil {
		return err
	}
	return s.replaceFile(s.recordFile(rec.Ref), text)
}

// replaceFile writes a file at once or not at all. The lock of the records is
// held, so that a temporary file of that name is a dead program's.
func (s *Store) replaceFile(name string, text []byte) error {
	work := s.workDir("images")
	file, err := os.OpenFile(work, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		return errors.Join(err, os.Remove(work))
	}
	return os.Rename(work, name)
}

// loadRecord finds what a reference meant when it was last fetched, if all of it
// is still there.
func (s *Store) loadRecord(ref string) (record, bool, error) {
	rec, err := readRecord(s.recordFile(ref))
	if errors.Is(err, fs.ErrNotExist) {
		return record{}, false, nil
	}
	if err != nil || rec.Ref != ref {
		return record{}, false, err
	}
	there, err := s.hasLayers(rec)
	return rec, there, err
}

func readRecord(file string) (rec record, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return record{}, err
	}
	if err := json.Unmarshal(text, &rec); err != nil {
		return record{}, fmt.Errorf("image: record %s: %w", file, err)
	}
	return rec, nil
}

func (s *Store) hasLayers(rec record) (bool, error) {
	for _, id := range rec.Layers {
		if there, err := exists(s.layerDir(id.Hex)); !there || err != nil {
			return false, err
		}
	}
	return true, nil
}
