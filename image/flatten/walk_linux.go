package flatten

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"path"
	"slices"

	"aether/internal/host/filetree"
	"aether/sandbox"
)

const (
	// maxEntries and maxDepth bound an image, as image/ does those it unpacks.
	maxEntries = 4 << 20
	maxDepth   = 256

	overlayPrefix = "user.overlay."
	opaqueName    = overlayPrefix + "opaque"
)

// visitor is given every file of an image: its name, what it is, the directory it
// is in (nil for the root) and which name it has there.
type visitor func(name string, info filetree.Info, in *filetree.Dir) error

// walk visits what layers, lowest first, show when they are mounted above each
// other.
func walk(ctx context.Context, layers []string, visit visitor) error {
	var stack []*filetree.Dir
	defer func() { closeDirs(stack) }()
	for _, layer := range layers {
		dir, err := filetree.Open(layer)
		if err != nil {
			return readError(err)
		}
		stack = append(stack, dir)
	}
	w := &walker{ctx: ctx, visit: visit}
	return readError(w.directory("", stack, 0))
}

func closeDirs(stack []*filetree.Dir) {
	for _, dir := range stack {
		dir.Close()
	}
}

type walker struct {
	ctx     context.Context
	visit   visitor
	entries int
}

// entry is a name in a merged directory: what the topmost layer has, and, if
// that is a directory, the layers that share it, topmost first.
type entry struct {
	filetree.Info
	in     *filetree.Dir
	shared []*filetree.Dir
	closed bool // layers further down do not count
}

func (w *walker) directory(name string, stack []*filetree.Dir, depth int) error {
	merged, err := merge(stack)
	if err != nil {
		return err
	}
	if w.entries += len(merged); w.entries > maxEntries || depth > maxDepth {
		return sandbox.Invalidf("image", "it has over %d files or directories over %d deep", maxEntries, maxDepth)
	}
	for _, base := range slices.Sorted(maps.Keys(merged)) {
		if err := w.ctx.Err(); err != nil {
			return err
		}
		if err := w.entry(path.Join(name, base), merged[base], depth); err != nil {
			return err
		}
	}
	return nil
}

func (w *walker) entry(name string, e *entry, depth int) error {
	if e.IsWhiteout() || e.IsDevice() {
		return nil
	}
	if err := w.visit(name, e.Info, e.in); err != nil || !e.IsDir() {
		return err
	}
	var below []*filetree.Dir
	defer func() { closeDirs(below) }()
	for _, parent := range slices.Backward(e.shared) {
		dir, err := parent.Sub(e.Name)
		if err != nil {
			return err
		}
		below = append(below, dir)
	}
	return w.directory(name, below, depth+1)
}

// merge lists a directory that several layers share, lowest first.
func merge(stack []*filetree.Dir) (map[string]*entry, error) {
	merged := map[string]*entry{}
	for _, dir := range slices.Backward(stack) {
		list, err := dir.Entries()
		if err != nil {
			return nil, err
		}
		for _, info := range list {
			add(merged, dir, info)
		}
		attrs, err := dir.Attrs(".", func(name string) bool { return name == opaqueName })
		if err != nil {
			return nil, err
		}
		if attrs[opaqueName] == "y" {
			break // nothing below is seen
		}
	}
	return merged, nil
}

func add(merged map[string]*entry, dir *filetree.Dir, info filetree.Info) {
	e := merged[info.Name]
	switch {
	case e == nil:
		e = &entry{Info: info, in: dir, closed: !info.IsDir()}
		merged[info.Name] = e
	case e.closed:
		return
	}
	if info.IsDir() {
		e.shared = append(e.shared, dir)
	} else {
		e.closed = true
	}
}

func readError(err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return &sandbox.Error{Class: sandbox.Unavailable, Retry: true, Reason: "the image changed while it was read", Err: err}
	case errors.Is(err, fs.ErrPermission):
		return &sandbox.Error{Class: sandbox.Denied, Reason: "a part of the image cannot be read", Err: err}
	}
	return err
}
