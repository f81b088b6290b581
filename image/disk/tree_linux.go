package disk

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"aether/image"
	"aether/internal/host/filetree"
	"aether/sandbox"
)

const (
	// maxEntries bounds the files of one disk, and with them the memory that the
	// making of it takes.
	maxEntries = 4 << 20
	maxDepth   = 256
	// maxBytes bounds the contents of all files: a directory that somebody else keeps may
	// hold one of any size that is a hole, which would be written out.
	maxBytes = 64 << 30

	overlayPrefix = "user.overlay."
	opaqueName    = overlayPrefix + "opaque"
)

// node is a file of the disk. Its second names share it.
type node struct {
	filetree.Info
	from   *filetree.Dir // the tree it comes from; nil for a directory of our own
	path   string        // in that tree
	target string        // of a link
	attrs  map[string]string
	// children are the entries of a directory, by name; nil for all else.
	children map[string]*node

	place
}

// tree is what a disk is made of. It holds the source directories open.
type tree struct {
	root    *node
	sources []*filetree.Dir
	entries int
	bytes   int64
}

func (t *tree) close() {
	for _, source := range t.sources {
		source.Close()
	}
}

// mountPoints are the directories that every machine's root must have.
var mountPoints = []struct {
	name string
	mode uint32
}{{"dev", 0o755}, {"proc", 0o555}, {"run", 0o755}, {"sys", 0o555}, {"tmp", 0o1777}}

const directory = 0o040000

func emptyDir(name string, mode uint32) *node {
	return &node{Info: filetree.Info{Name: name, Mode: directory | mode}, children: map[string]*node{}}
}

// scan reads the metadata of everything in a root.
func scan(ctx context.Context, root image.Root) (*tree, error) {
	t := &tree{root: emptyDir("", 0o755)}
	for _, m := range mountPoints {
		t.root.children[m.name] = emptyDir(m.name, m.mode)
	}
	for _, layer := range root.Layers {
		if err := t.add(ctx, layer, t.root); err != nil {
			t.close()
			return nil, err
		}
	}
	for _, bind := range root.Binds {
		if err := t.add(ctx, bind.Source, t.bindTarget(bind.Target)); err != nil {
			t.close()
			return nil, err
		}
	}
	return t, nil
}

// bindTarget makes an empty directory where a host directory is to be shown.
func (t *tree) bindTarget(target string) *node {
	at := t.root
	parts := strings.Split(strings.Trim(path.Clean(target), "/"), "/")
	for i, part := range parts {
		next := at.children[part]
		if next == nil || next.children == nil || i == len(parts)-1 {
			next = emptyDir(part, 0o755)
			at.children[part] = next
		}
		at = next
	}
	return at
}

func (t *tree) add(ctx context.Context, source string, into *node) error {
	dir, err := filetree.Open(source)
	if err != nil {
		return pathError(err)
	}
	t.sources = append(t.sources, dir)
	self, err := dir.Self()
	if err != nil {
		return err
	}
	s := &scanner{ctx: ctx, tree: t, source: dir, links: map[[2]uint64]*node{}, self: uint32(os.Geteuid())}
	s.take(into, self, ".")
	return s.merge(dir, into, 0)
}

// scanner merges one source over what the tree has.
type scanner struct {
	ctx    context.Context
	tree   *tree
	source *filetree.Dir
	links  map[[2]uint64]*node // files with several names
	self   uint32
}

func (s *scanner) merge(dir *filetree.Dir, into *node, depth int) error {
	if err := s.ctx.Err(); err != nil {
		return err
	}
	if err := s.hideBelow(dir, into); err != nil {
		return err
	}
	entries, err := dir.Entries()
	if err != nil {
		return err
	}
	if s.tree.entries += len(entries); s.tree.entries > maxEntries || depth > maxDepth {
		return sandbox.Invalidf("image", "it has over %d files or directories over %d deep", maxEntries, maxDepth)
	}
	for _, entry := range entries {
		if err := s.entry(dir, into, entry, depth); err != nil {
			return err
		}
	}
	return nil
}

// hideBelow forgets what lower layers have in an opaque directory.
func (s *scanner) hideBelow(dir *filetree.Dir, into *node) error {
	if len(into.children) == 0 {
		return nil
	}
	attrs, err := dir.Attrs(".", func(name string) bool { return name == opaqueName })
	if err == nil && attrs[opaqueName] == "y" {
		clear(into.children)
	}
	return err
}

func (s *scanner) entry(dir *filetree.Dir, into *node, info filetree.Info, depth int) error {
	name := path.Join(into.path, info.Name)
	switch {
	case info.IsWhiteout():
		delete(into.children, info.Name)
		return nil
	case info.IsDevice():
		return nil
	case info.IsDir():
		return s.directory(dir, into, info, name, depth)
	}
	n, err := s.leaf(dir, info, name)
	if err == nil {
		into.children[info.Name] = n
	}
	return err
}

func (s *scanner) directory(dir *filetree.Dir, into *node, info filetree.Info, name string, depth int) error {
	n := into.children[info.Name]
	if n == nil || n.children == nil {
		n = &node{children: map[string]*node{}}
		into.children[info.Name] = n
	}
	s.take(n, info, name)
	sub, err := dir.Sub(info.Name)
	if errors.Is(err, fs.ErrPermission) {
		n.Mode &^= 0o7777 // there, and closed
		return nil
	}
	if err != nil {
		return err
	}
	defer sub.Close()
	return s.merge(sub, n, depth+1)
}

func (s *scanner) leaf(dir *filetree.Dir, info filetree.Info, name string) (*node, error) {
	id := [2]uint64{info.Dev, info.Ino}
	if n := s.links[id]; n != nil {
		return n, nil
	}
	if info.IsFile() {
		if s.tree.bytes += min(info.Size, maxBytes+1); s.tree.bytes > maxBytes {
			return nil, sandbox.Invalidf("image", "its files have over %d bytes", int64(maxBytes))
		}
	}
	n := &node{}
	s.take(n, info, name)
	if info.IsSymlink() {
		target, err := dir.Readlink(info.Name)
		if err != nil {
			return nil, err
		}
		n.target, n.Size = target, int64(len(target))
	}
	if info.Links > 1 {
		s.links[id] = n
	}
	return n, nil
}

func (s *scanner) take(n *node, info filetree.Info, name string) {
	n.Info, n.from, n.path = info, s.source, name
	if s.self != 0 {
		n.UID, n.GID = asRoot(n.UID, s.self), asRoot(n.GID, uint32(os.Getegid()))
	}
}

func asRoot(id, self uint32) uint32 {
	if id == self {
		return 0
	}
	return id
}

// names are the children's in the order of the disk.
func (n *node) names() []string {
	names := make([]string, 0, len(n.children))
	for name := range n.children {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func pathError(err error) error {
	class := sandbox.Internal
	switch {
	case errors.Is(err, fs.ErrNotExist):
		class = sandbox.NotFound
	case errors.Is(err, fs.ErrPermission):
		class = sandbox.Denied
	}
	return &sandbox.Error{Class: class, Op: "disk", Reason: "a part of the image cannot be read", Err: err}
}

// keepAttr says which attributes mean the same inside a machine.
func keepAttr(name string) bool {
	switch name {
	case "security.capability", "system.posix_acl_access", "system.posix_acl_default":
		return true
	}
	return strings.HasPrefix(name, "user.") && !strings.HasPrefix(name, overlayPrefix)
}

// complete reads what only the making of a disk needs: attributes, and which
// files are closed to this user.
func (t *tree) complete(ctx context.Context, nodes []*node) error {
	for _, n := range nodes {
		if n.from == nil {
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		attrs, err := n.from.Attrs(n.path, keepAttr)
		if err != nil {
			return changed(n, err)
		}
		n.attrs = attrs
		if err := n.checkReadable(); err != nil {
			return err
		}
	}
	return nil
}

func (n *node) checkReadable() error {
	if !n.IsFile() || os.Geteuid() == 0 {
		return nil
	}
	file, err := n.from.OpenFile(n.path)
	if errors.Is(err, fs.ErrPermission) {
		n.Mode &^= 0o7777
		n.Size = 0
		return nil
	}
	if err != nil {
		return changed(n, err)
	}
	return file.Close()
}

// changed is the failure of a source that somebody writes to meanwhile.
func changed(n *node, err error) error {
	return &sandbox.Error{Class: sandbox.Unavailable, Op: "disk", Retry: true, Err: err,
		Reason: fmt.Sprintf("/%s changed while it was being copied", strings.TrimPrefix(n.path, "./"))}
}
