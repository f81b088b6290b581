package vmm

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"aether/internal/host/launch"
)

// templates are those that this program has at hand.
type templates struct {
	mu     sync.Mutex
	open   map[string]*template
	recent []string // names, the last used last
	closed bool
}

// mostOpen bounds the templates at hand: each takes the memory that a kernel and
// its guest service have touched.
const mostOpen = 4

// again gives one that is at hand, or nil.
func (ts *templates) again(name string) (*template, error) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	t := ts.open[name]
	if t == nil {
		return nil, nil
	}
	ts.touch(name)
	return t.again()
}

// loaded gives what a template that is at hand has loaded of a file, or nil.
func (ts *templates) loaded(of *base) (*os.File, error) {
	want, err := of.file.Stat()
	if err != nil {
		return nil, err
	}
	ts.mu.Lock()
	defer ts.mu.Unlock()
	for _, t := range ts.open {
		if t.base == nil || t.base.sum != of.sum {
			continue
		}
		has, err := t.base.file.Stat()
		if err != nil {
			return nil, err
		}
		if os.SameFile(has, want) {
			return launch.Reopen(t.memory)
		}
	}
	return nil, nil
}

func (ts *templates) touch(name string) { ts.recent = append(ts.without(name), name) }

func (ts *templates) without(name string) []string {
	return slices.DeleteFunc(ts.recent, func(other string) bool { return other == name })
}

// keep takes a template over and gives it as again does. Errors: Conflict once the
// driver is closed.
func (ts *templates) keep(name string, t *template) (*template, error) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if ts.closed {
		return nil, errors.Join(errClosed, t.close())
	}
	if ts.open == nil {
		ts.open = map[string]*template{}
	}
	ts.open[name] = t
	ts.touch(name)
	if len(ts.recent) > mostOpen {
		if err := ts.drop(ts.recent[0]); err != nil {
			return nil, err
		}
	}
	return t.again()
}

func (ts *templates) drop(name string) error {
	t := ts.open[name]
	if t == nil {
		return nil
	}
	delete(ts.open, name)
	ts.recent = ts.without(name)
	return t.close()
}

// forget lets go of a template that machines cannot go on from.
func (ts *templates) forget(t *template) error {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	return errors.Join(ts.drop(filepath.Base(t.dir)), os.RemoveAll(t.dir))
}

func (ts *templates) close() (err error) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	ts.closed = true
	for len(ts.recent) > 0 {
		err = errors.Join(err, ts.drop(ts.recent[0]))
	}
	return err
}
