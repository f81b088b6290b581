package vmm

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"time"

	"aether/internal/host/launch"
	"aether/internal/host/spawn"
	"aether/internal/host/upperdir"
)

// Files of a template, beside its manifest.
const (
	memoryFile = "memory"
	stateFile  = "state"
)

// maxTemplates bounds the templates on disk.
const maxTemplates = 8

// saveMemory copies what a guest has touched of its memory. It is not flushed: a
// template is of no use once the host has gone down, and a snapshot that has it flushes it.
func saveMemory(ctx context.Context, memory *os.File, name string) error {
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(copySparse(ctx, file, memory), file.Close())
}

func copySparse(ctx context.Context, to, from *os.File) error {
	info, err := from.Stat()
	if err != nil {
		return err
	}
	const least = 1 << 20 // many small holes take longer than what they hold
	extents, err := upperdir.Extents(from, info.Size(), least)
	if err != nil {
		return err
	}
	for _, x := range extents {
		if _, err := to.Seek(x.Offset, 0); err != nil {
			return err
		}
		if err := upperdir.Pour(ctx, to, from, []upperdir.Extent{x}); err != nil {
			return err
		}
	}
	return to.Truncate(info.Size())
}

// loadTemplate reads a template into memory that cannot be changed any more. All of it is of one
// directory, whatever its name becomes that of meanwhile.
func loadTemplate(ctx context.Context, dir string) (_ *template, err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	var opened []*os.File
	defer func() {
		if err != nil {
			closeAll(opened)
		}
	}()
	of, err := readRecord(root)
	if err != nil {
		return nil, err
	}
	onDisk, err := root.Open(memoryFile)
	if err != nil {
		return nil, err
	}
	opened = append(opened, onDisk)
	memory, err := loadSealed(ctx, onDisk)
	if err != nil {
		return nil, err
	}
	opened = append(opened, memory)
	stateOnDisk, err := root.Open(stateFile)
	if err != nil {
		return nil, err
	}
	defer stateOnDisk.Close()
	state, err := loadSealed(ctx, stateOnDisk)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	_ = os.Chtimes(dir, now, now) // what was used lately is kept
	t := &template{memory: memory, state: state, dir: dir}
	if of.MemorySum == nil {
		return t, onDisk.Close()
	}
	t.base = &base{file: onDisk, name: filepath.Join(dir, memoryFile), sum: *of.MemorySum}
	return t, nil
}

// record is what is kept of a template beside its files.
type record struct {
	mold
	// MemorySum is the checksum of the memory, for snapshots that have it.
	MemorySum *uint32 `json:"memory_sum,omitempty"`
}

func readRecord(dir *os.Root) (of record, err error) {
	text, err := dir.ReadFile(manifestFile)
	if err != nil {
		return of, err
	}
	return of, json.Unmarshal(text, &of)
}

func recordOf(dir string) (record, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return record{}, err
	}
	defer root.Close()
	return readRecord(root)
}

func loadSealed(ctx context.Context, from *os.File) (*os.File, error) {
	file, err := launch.MemoryFile(filepath.Base(from.Name()), 0)
	if err != nil {
		return nil, err
	}
	if err = copySparse(ctx, file, from); err == nil {
		err = spawn.Seal(ctx, file)
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// prune removes the templates of earlier lives of the host, and of the others those
// that were not used for longest. Whoever reads one meanwhile finds it missing, and
// makes it anew.
func (e *engine) prune(hostBoot string) error {
	entries, err := os.ReadDir(templatesDir(e.opts))
	if err != nil {
		return err
	}
	var kept []os.FileInfo
	for _, entry := range entries {
		dir := filepath.Join(templatesDir(e.opts), entry.Name())
		if dir == templateWork(e.opts) {
			continue
		}
		info, infoErr := entry.Info()
		of, readErr := recordOf(dir)
		if infoErr != nil || readErr != nil || of.HostBoot != hostBoot {
			err = errors.Join(err, os.RemoveAll(dir))
			continue
		}
		kept = append(kept, info)
	}
	slices.SortFunc(kept, func(a, b os.FileInfo) int { return b.ModTime().Compare(a.ModTime()) })
	for _, old := range kept[min(len(kept), maxTemplates):] {
		err = errors.Join(err, os.RemoveAll(filepath.Join(templatesDir(e.opts), old.Name())))
	}
	return err
}
