package state

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"aether/internal/host/storedir"
	"aether/sandbox"
)

// CollectDamaged removes the records that were set aside before a time, with the reasons
// beside them, and says which; in a dry run it says which it would.
func (d *Dir) CollectDamaged(before time.Time, dry bool) (gone []sandbox.Collected, err error) {
	dir := filepath.Join(d.path, damagedName)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("state: %w", err)
	}
	for _, entry := range entries {
		if when, ok := setAsideAt(entry.Name()); !ok || !when.Before(before) {
			continue
		}
		one, err := collect("damaged record", filepath.Join(dir, entry.Name()), dry)
		if err != nil {
			return gone, err
		}
		gone = append(gone, one)
	}
	return gone, nil
}

// setAsideAt is when a record was set aside, which its name says.
func setAsideAt(name string) (time.Time, bool) {
	name = strings.TrimSuffix(name, ".reason")
	nanos, err := strconv.ParseInt(name[strings.LastIndexByte(name, '-')+1:], 10, 64)
	return time.Unix(0, nanos), err == nil
}

func collect(kind, path string, dry bool) (sandbox.Collected, error) {
	bytes, err := storedir.Size(path)
	if err == nil && !dry {
		err = storedir.RemoveAll(path)
	}
	if err != nil {
		return sandbox.Collected{}, fmt.Errorf("state: collect: %w", err)
	}
	return sandbox.Collected{Kind: kind, Name: filepath.Base(path), Bytes: bytes}, nil
}

// Collect removes the directories in the Home of a record but the one that is kept, and
// says which; in a dry run it says which it would. Nobody may be changing the record.
func (k *kind) Collect(id, kept string, dry bool) (gone []sandbox.Collected, err error) {
	entries, err := os.ReadDir(k.Home(id))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	for _, entry := range entries {
		if !entry.IsDir() || entry.Name() == kept {
			continue
		}
		one, failed := collect("checkpoint", filepath.Join(k.Home(id), entry.Name()), dry)
		if err = errors.Join(err, failed); err != nil {
			return gone, err
		}
		one.Name = id + "/" + one.Name
		gone = append(gone, one)
	}
	return gone, err
}
