package list

import (
	"cmp"
	"context"
	"path/filepath"
	"time"

	"aether/sandbox"
)

// PathVariable names the lists of an operator where they are not in DefaultPath.
const PathVariable = "AETHER_LISTS"

// Host evaluates the lists of this host by their names.
type Host struct {
	// Dir is a directory for answers that are kept, that is made if it is missing.
	Dir string
	// Path is where the files of the operator are. "" is DefaultPath, where there need
	// not be any.
	Path string
	// Timeout is that of Options.
	Timeout time.Duration
	// Refresh has tools asked whatever is kept.
	Refresh bool
}

// Names are those of all lists.
func (h Host) Names() ([]string, error) {
	book, err := h.book()
	if err != nil {
		return nil, err
	}
	return append([]string{NamePackages, NamePublic}, book.Names()...), nil
}

// List evaluates a list. Those that it includes and that are no files stay names. Errors:
// NotFound; those of Load and of Cache.Packages.
func (h Host) List(ctx context.Context, name string) (List, error) {
	switch name {
	case NamePackages:
		o := Options{Dir: filepath.Join(h.Dir, "asking"), Timeout: h.Timeout}
		return Cache{Dir: h.Dir}.Packages(ctx, o, h.Refresh)
	case NamePublic:
		return Public(), nil
	}
	book, err := h.book()
	if err != nil {
		return List{}, err
	}
	return book.List(name)
}

func (h Host) book() (*Book, error) {
	book, err := Load(cmp.Or(h.Path, DefaultPath))
	switch {
	case sandbox.ClassOf(err) != sandbox.NotFound:
		return book, err
	case h.Path != "":
		return nil, sandbox.Invalidf("lists", "%s does not exist", h.Path) // and no list is missing
	}
	return &Book{}, nil
}
