package vmm

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"aether/internal/host/blocklayer"
	"aether/internal/host/launch"
	"aether/internal/host/loopdisk"
	"aether/internal/host/storedir"
)

// What a machine writes is on a disk of its own where that is asked for: a file system that all
// of a size begin with, and files of ours over it that have no name. When the machine is forked,
// what it has written becomes a layer that source and children share, and each goes on in a file
// of its own. The monitor has the only descriptor by which one can be written to, and none any
// more of a layer: the kernel says so, whoever the monitor obeys.

const (
	// writableFile is the disk in a snapshot, as what a restored machine begins with.
	writableFile = "writable"
	// defaultOnDisk is the size of a disk if none is asked for. It takes room as it is
	// written to.
	defaultOnDisk = 10 << 30
)

// writable is a disk that a machine writes to. All of its methods can be called on none.
type writable struct {
	dir    string // in which its files have no name
	base   *os.File
	layers []*os.File
	// upper is what the machine writes, for reading; fresh is the same for writing, until the
	// monitor has it.
	upper, fresh *os.File
	size         int64
}

// giveDisk gives a machine that boots a disk, if it is to have one.
func (m *machine) giveDisk(ctx context.Context) error {
	if !m.spec.Limits.DiskBacked {
		return nil
	}
	size := cmp.Or(m.spec.Limits.DiskBytes, defaultOnDisk) / blocklayer.Block * blocklayer.Block
	base, err := m.engine.blank(ctx, size)
	if err != nil {
		return err
	}
	m.writable, err = newWritable(layersDir(m.engine.opts), base, nil)
	return err
}

// openWritable is a disk that begins with a file.
func (e *engine) openWritable(name string) (*writable, error) {
	base, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	return newWritable(layersDir(e.opts), base, nil)
}

// newWritable takes the files over.
func newWritable(dir string, base *os.File, layers []*os.File) (*writable, error) {
	w := &writable{dir: dir, base: base, layers: layers}
	info, err := base.Stat()
	if err == nil {
		w.size = info.Size()
		w.fresh, w.upper, err = blocklayer.New(dir, w.size)
	}
	if err != nil {
		w.close()
		return nil, err
	}
	return w, nil
}

// blank is the file of an empty file system, which all of a size begin with.
func (e *engine) blank(ctx context.Context, size int64) (*os.File, error) {
	e.blanks.Lock()
	defer e.blanks.Unlock()
	final := filepath.Join(layersDir(e.opts), blankPrefix+strconv.FormatInt(size, 10))
	file, err := os.Open(final)
	if !errors.Is(err, fs.ErrNotExist) {
		return file, err
	}
	scratch, remove, err := storedir.Scratch(ctx, forksDir(e.opts))
	if err != nil {
		return nil, err
	}
	empty, made := filepath.Join(scratch, "empty"), filepath.Join(scratch, "blank")
	if err = os.Mkdir(empty, 0o700); err == nil {
		err = loopdisk.Format(ctx, made, size, empty)
	}
	if err == nil {
		file, err = os.Open(made)
	}
	if err == nil {
		err = errors.Join(os.Rename(made, final), keepNewest(layersDir(e.opts), maxBlanks))
	}
	if err = errors.Join(err, remove()); err != nil {
		if file != nil {
			file.Close()
		}
		return nil, err
	}
	return file, nil
}

const (
	blankPrefix = "blank-"
	// maxBlanks bounds the files that are kept for sizes that somebody asked for once.
	maxBlanks = 16
)

// keepNewest removes blank disks but the newest. Who has one open keeps it.
func keepNewest(dir string, most int) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	made := map[string]time.Time{}
	for _, entry := range entries {
		if info, err := entry.Info(); err == nil && strings.HasPrefix(entry.Name(), blankPrefix) { // else another has removed it
			made[entry.Name()] = info.ModTime()
		}
	}
	names := slices.SortedFunc(maps.Keys(made), func(a, b string) int { return made[b].Compare(made[a]) })
	for _, name := range names[min(most, len(names)):] {
		if removed := os.Remove(filepath.Join(dir, name)); !errors.Is(removed, fs.ErrNotExist) {
			err = errors.Join(err, removed)
		}
	}
	return err
}

// handing are the files for a monitor that is to make the machine.
func (w *writable) handing() []*os.File {
	if w == nil {
		return nil
	}
	return append(append([]*os.File{w.base}, w.layers...), w.fresh)
}

// handedOver leaves the writing to the monitor.
func (w *writable) handedOver() {
	if w != nil && w.fresh != nil {
		w.fresh.Close()
		w.fresh = nil
	}
}

// bytes is its size.
func (w *writable) bytes() int64 {
	if w == nil {
		return 0
	}
	return w.size
}

// written is what a monitor is given when the machine is forked: what is written so far, or the
// file for what comes next, which can be written to.
func (w *writable) written() *os.File {
	if w == nil {
		return nil
	}
	if w.fresh != nil {
		return w.fresh
	}
	return w.upper
}

// next is a file for what is written after a fork, as a disk of nothing else.
func (w *writable) next() (*writable, error) {
	if w == nil {
		return nil, nil
	}
	next := &writable{}
	var err error
	next.fresh, next.upper, err = blocklayer.New(w.dir, w.size)
	return next, err
}

// freeze has what was written be a layer, as the monitor says that it is. Nobody can write to it
// any more, or there is no fork.
func (w *writable) freeze(next *writable) error {
	if w == nil {
		return nil
	}
	next.handedOver()
	if len(w.layers) >= blocklayer.MaxLayers {
		closeAll(w.layers)
		w.layers = nil
	}
	w.layers, w.upper = append(w.layers, w.upper), next.upper
	return blocklayer.Unchanging(w.layers[len(w.layers)-1])
}

// frozen is what children begin with.
func (w *writable) frozen() (*writable, error) {
	if w == nil {
		return nil, nil
	}
	base, err := launch.Reopen(w.base)
	if err != nil {
		return nil, err
	}
	layers, err := againAll(w.layers)
	if err != nil {
		return nil, errors.Join(err, base.Close())
	}
	return &writable{dir: w.dir, base: base, layers: layers, size: w.size}, nil
}

// goOn is a disk over what is frozen.
func (w *writable) goOn() (*writable, error) {
	if w == nil {
		return nil, nil
	}
	from, err := w.frozen()
	if err != nil {
		return nil, err
	}
	return newWritable(from.dir, from.base, from.layers)
}

// save writes all of the disk of a machine that stands still to a file, after its monitor has
// noted what it has written.
func (w *writable) save(name string) error {
	if w == nil {
		return nil
	}
	to, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(blocklayer.Merge(to, w.base, append(w.layers[:len(w.layers):len(w.layers)], w.upper)), to.Close())
}

func (w *writable) close() {
	if w == nil {
		return
	}
	w.handedOver()
	for _, file := range append(append([]*os.File(nil), w.layers...), w.base, w.upper) {
		if file != nil {
			file.Close()
		}
	}
}
