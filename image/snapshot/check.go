package snapshot

import (
	"path"
	"strings"
)

const (
	maxPath   = 4096
	maxName   = 255
	maxAttrs  = 64 << 10
	maxID     = 65535
	maxSize   = 1 << 62
	digestLen = 64
)

// checker looks at the entries of a manifest one after another.
type checker struct {
	last string
	seen bool
	dirs map[string]bool
	same map[int64]*entry
}

func newChecker() *checker {
	return &checker{dirs: map[string]bool{".": true}, same: map[int64]*entry{}}
}

// entry refuses what encode would not have written. In particular the parents of
// every entry are directories of the same manifest, which come first, so that no
// link is ever on the way to an entry.
func (c *checker) entry(e *entry) error {
	name := string(e.Path)
	if c.seen && name <= c.last {
		return broken(nil, "%.200q does not follow %.200q", name, c.last)
	}
	c.last, c.seen = name, true
	if err := c.place(name); err != nil {
		return err
	}
	if err := checkMeta(e); err != nil {
		return err
	}
	if err := checkKind(e); err != nil {
		return err
	}
	if e.Kind == kindDir {
		c.dirs[name] = true
	}
	return c.linked(e)
}

func (c *checker) place(name string) error {
	if name == "." {
		return nil
	}
	if name == "" || len(name) >= maxPath || strings.ContainsRune(name, 0) || path.Clean("/"+name) != "/"+name {
		return broken(nil, "%.200q is not the path of an entry", name)
	}
	dir, base := path.Split(name)
	if len(base) > maxName || !c.dirs[path.Clean(dir)] {
		return broken(nil, "%.200q is in no directory of the snapshot", name)
	}
	return nil
}

func checkMeta(e *entry) error {
	size := 0
	for _, a := range e.Attrs {
		size += len(a.Name) + len(a.Value)
		if !strings.HasPrefix(string(a.Name), "user.") || strings.ContainsRune(string(a.Name), 0) {
			return broken(nil, "%.200q has the attribute %.200q", e.Path, a.Name)
		}
	}
	if size > maxAttrs || e.Mode&^0o1777 != 0 || e.UID > maxID || e.GID > maxID || e.Nanos < 0 || e.Nanos >= 1e9 {
		return broken(nil, "%.200q has attributes, a mode, an owner or a time out of bounds", e.Path)
	}
	return nil
}

// checkKind lets entries have only what their kind has.
func checkKind(e *entry) error {
	ok := (e.Kind == kindFile || e.Size == 0 && e.Blob == "" && e.Extents == nil) &&
		(e.Kind == kindDir || !e.Opaque) && (e.Kind == kindDir || e.Kind == kindFile || e.Attrs == nil) &&
		(e.Kind == kindSymlink) == (e.Target != "") && (e.Kind != kindDir || e.Same == 0) && e.Same >= 0
	switch e.Kind {
	case kindDir, kindFifo, kindSocket:
	case kindFile:
		ok = ok && checkContent(e)
	case kindSymlink:
		ok = ok && len(e.Target) < maxPath && !strings.ContainsRune(string(e.Target), 0)
	case kindWhiteout:
		ok = ok && e.Path != "." && e.Same == 0 && e.Mode == 0
	default:
		ok = false
	}
	if e.Path == "." && e.Kind != kindDir || !ok {
		return broken(nil, "%.200q is not a possible %.20q", e.Path, e.Kind)
	}
	return nil
}

func checkContent(e *entry) bool {
	if e.Size < 0 || e.Size > maxSize || e.Blob != "" && !isDigest(e.Blob) || e.Extents != nil && e.Blob == "" {
		return false
	}
	end := int64(0)
	for _, x := range e.Extents {
		if x[0] < end || x[1] <= 0 || x[0] > e.Size || x[1] > e.Size-x[0] {
			return false
		}
		end = x[0] + x[1]
	}
	return true
}

// linked wants all names of a file to say the same of it.
func (c *checker) linked(e *entry) error {
	if e.Same == 0 {
		return nil
	}
	first, ok := c.same[e.Same]
	if !ok {
		c.same[e.Same] = e
		return nil
	}
	if first.Kind != e.Kind || first.Blob != e.Blob || first.Size != e.Size || first.Target != e.Target {
		return broken(nil, "%.200q and %.200q are not the same file", first.Path, e.Path)
	}
	return nil
}

// isDigest says whether a text is a SHA-256 as this package writes it.
func isDigest(s string) bool {
	return len(s) == digestLen && strings.Trim(s, "0123456789abcdef") == ""
}
