package cell

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"aether/image"
	"aether/internal/host/confine"
	"aether/sandbox"
)

// maxBases is how many images are kept ready at a time.
const maxBases = 32

// mountPoints are the directories that every cell's root must have.
var mountPoints = []string{"dev", "proc", "tmp"}

// bases keeps the images that cells were lately made of ready for more.
type bases struct {
	host *confine.Host
	log  *slog.Logger
	bare string // a layer with nothing but mount points, below every image
	// newWarm starts the making of warm cells; nil if none are made ahead.
	newWarm func(_ *confine.Base, networked bool) *warmCells

	mu    sync.Mutex
	ready map[string]*base
	clock uint64
}

// base is a prepared image, kept while cells are being booted from it.
type base struct {
	*confine.Base
	warm atomic.Pointer[warmCells] // nil if none are made ahead, or not yet
	// networked are those of the egress mode, and connected says that there was one: the
	// others have no device.
	networked atomic.Pointer[warmCells]
	connected bool
	key       string
	layers    []fs.FileInfo // of the image, when it was prepared
	users     int
	used      uint64 // when, by the clock; 0 if no cell was made of it yet
	stale     bool   // it is let go when nobody uses it any more
}

// warmCells are those that cells of a mode are made of.
func (b *base) warmCells(networked bool) *atomic.Pointer[warmCells] {
	if networked {
		return &b.networked
	}
	return &b.warm
}

// shows says whether the layers are those that it was prepared with. A layer that was
// removed and unpacked again has the path of the old one, but warm cells hold the old
// one, which is empty now. While they do, no other directory has its inode number.
func (b *base) shows(layers []fs.FileInfo) bool {
	return slices.EqualFunc(b.layers, layers, os.SameFile)
}

// let lets go of an image; nothing but descriptors is at stake.
func (b *bases) let(entry *base) {
	for _, networked := range []bool{false, true} {
		if warm := entry.warmCells(networked).Load(); warm != nil {
			warm.close()
		}
	}
	if err := entry.Close(); err != nil {
		b.log.Warn("cell: an image that is not used any more could not be closed", "err", err)
	}
}

func newBases(host *confine.Host, runDir string, log *slog.Logger) (*bases, error) {
	bare, err := makeBare(runDir)
	if err != nil {
		return nil, fmt.Errorf("cell: %w", err)
	}
	return &bases{host: host, log: log, bare: bare, ready: map[string]*base{}}, nil
}

// makeBare makes the layer that is below every image.
func makeBare(runDir string) (string, error) {
	bare := filepath.Join(runDir, "bare")
	for _, dir := range mountPoints {
		if err := os.MkdirAll(filepath.Join(bare, dir), 0o755); err != nil {
			return "", err
		}
	}
	return bare, os.Chmod(filepath.Join(bare, "tmp"), fs.ModeSticky|0o777)
}

// keyOf tells trees from each other. No path has a null byte.
func keyOf(tree confine.Tree) string {
	parts := slices.Clone(tree.Layers)
	for _, bind := range tree.Binds {
		parts = append(parts, "", bind.Source, bind.Target)
	}
	return strings.Join(parts, "\x00")
}

// acquire gives a prepared image, for a cell of the egress mode if it is networked; release
// must follow.
func (b *bases) acquire(root image.Root, networked bool) (*base, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	entry, err := b.entryOf(root)
	if err != nil {
		return nil, err
	}
	if entry.used > 0 {
		b.warmUp(entry, networked)
	}
	entry.connected = entry.connected || networked
	b.clock++
	entry.users++
	entry.used = b.clock
	b.evict() // not before: it is not idle now
	return entry, nil
}

// prepareAhead is acquire's longest part, before a cell is made of the image.
func (b *bases) prepareAhead(root image.Root) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	_, err := b.entryOf(root)
	return err
}

// entryOf gives the image as it is now, and prepares it if it is not. The lock is held.
func (b *bases) entryOf(root image.Root) (*base, error) {
	tree := b.treeOf(root)
	layers, err := lookAt(root.Layers)
	if err != nil {
		return nil, err
	}
	key := keyOf(tree)
	entry, ok := b.ready[key]
	if ok && entry.shows(layers) {
		return entry, nil
	}
	if ok {
		b.drop(entry)
	}
	prepared, err := b.prepare(tree)
	if err != nil {
		return nil, err
	}
	entry = &base{Base: prepared, key: key, layers: layers}
	b.ready[key] = entry
	return entry, nil
}

// warmUp begins to make cells ahead: whoever makes a second cell of an image, and of a mode,
// is likely to make a third.
func (b *bases) warmUp(entry *base, networked bool) {
	warm := entry.warmCells(networked)
	if b.newWarm == nil || warm.Load() != nil || networked && !entry.connected {
		return
	}
	warm.Store(b.newWarm(entry.Base, networked))
}

func (b *bases) treeOf(root image.Root) confine.Tree {
	tree := confine.Tree{Layers: append([]string{b.bare}, root.Layers...)}
	for _, bind := range root.Binds {
		tree.Binds = append(tree.Binds, confine.Bind(bind))
	}
	return tree
}

// lookAt finds out which directories stand at the paths of layers.
func lookAt(layers []string) ([]fs.FileInfo, error) {
	list := make([]fs.FileInfo, len(layers))
	for i, layer := range layers {
		info, err := os.Stat(layer)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, &sandbox.Error{Class: sandbox.Internal, Reason: "a part of the image went away", Err: err}
		}
		if err != nil {
			return nil, fmt.Errorf("cell: %w", err)
		}
		list[i] = info
	}
	return list, nil
}

// forget lets go of what is kept ready of a root that nobody will use again.
func (b *bases) forget(root image.Root) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if entry := b.ready[keyOf(b.treeOf(root))]; entry != nil {
		b.drop(entry)
	}
}

// drop has an image be prepared anew for the next cell.
func (b *bases) drop(entry *base) {
	delete(b.ready, entry.key)
	if entry.stale = true; entry.users == 0 {
		b.let(entry)
	}
}

func (b *bases) release(entry *base) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if entry.users--; entry.stale && entry.users == 0 {
		b.let(entry)
	}
	b.evict()
}

// evict lets go of the image that was not used for longest, if there are too
// many and one is idle.
func (b *bases) evict() {
	for len(b.ready) > maxBases {
		var oldest *base
		for _, entry := range b.ready {
			if entry.users == 0 && (oldest == nil || entry.used < oldest.used) {
				oldest = entry
			}
		}
		if oldest == nil {
			return
		}
		delete(b.ready, oldest.key)
		b.let(oldest)
	}
}

// close lets go of all images; cells that were made of them are not touched.
func (b *bases) close() {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, entry := range b.ready {
		b.let(entry)
	}
	clear(b.ready)
}

func (b *bases) prepare(tree confine.Tree) (*confine.Base, error) {
	targets := append([]string(nil), mountPoints...)
	for _, bind := range tree.Binds {
		targets = append(targets, strings.TrimPrefix(bind.Target, "/"))
	}
	for _, target := range targets {
		if err := checkMountPoint(tree, target); err != nil {
			return nil, err
		}
	}
	return b.host.Prepare(tree)
}

// checkMountPoint refuses images where something else than a directory stands
// in the place of a mount: a link there would lead the mount astray.
func checkMountPoint(tree confine.Tree, target string) error {
	for i := len(tree.Layers) - 1; i >= 0; i-- {
		info, err := os.Lstat(filepath.Join(tree.Layers[i], target))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			return fmt.Errorf("cell: %w", err)
		case !info.IsDir():
			return sandbox.Invalidf("image", "/%s is not a directory in it", target)
		}
		return nil
	}
	return sandbox.Invalidf("image", "it has no /%s", target)
}
