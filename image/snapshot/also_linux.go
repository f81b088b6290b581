package snapshot

import (
	"os"
	"path"

	"aether/internal/host/upperdir"
)

// TakeAlso copies one more directory of the sandbox, in which nothing runs, to a
// place among its files where there are none: below an image's directory that
// something is mounted on. What an older snapshot has there is gone.
func (d *Draft) TakeAlso(dir *os.File, place string) error {
	for parent := path.Dir(place); parent != "."; parent = path.Dir(parent) {
		d.add(entry{Path: text(parent), Kind: kindDir, Mode: 0o755}, -1)
	}
	return upperdir.Walk(d.ctx, dir, elsewhere{taking{d}, place})
}

// elsewhere is a Draft for entries whose paths are not below the root.
type elsewhere struct {
	taking
	place string
}

// Enter implements upperdir.Visitor.
func (w elsewhere) Enter(e *upperdir.Entry) error {
	moved := *e
	moved.Path, moved.Opaque = path.Join(w.place, e.Path), true
	return w.taking.Enter(&moved)
}

// Visit implements upperdir.Visitor.
func (w elsewhere) Visit(e *upperdir.Entry) error {
	moved := *e
	moved.Path = path.Join(w.place, e.Path)
	return w.taking.Visit(&moved)
}
