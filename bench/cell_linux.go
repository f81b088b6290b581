package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"aether/host/cgroup"
	"aether/host/confine"
	"aether/host/spawn"
)

// Bounds of every sandbox that can have them.
const (
	memoryLimit  = 1 << 30
	processLimit = 4096
	writeLimit   = 1 << 30
)

// cells is the engine, used as its driver uses it.
type cells struct {
	host   *confine.Host
	base   *confine.Base
	groups *groups
	ahead  *blanks // nil if nothing is made ahead
}

func newCells(dir, root string, ahead int) (c *cells, err error) {
	c = &cells{}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.close())
		}
	}()
	if err = os.Mkdir(dir, 0o711); err != nil {
		return c, err
	}
	if c.groups, err = newGroups(dir); err != nil {
		return c, err
	}
	if c.host, err = confine.Open(confine.Options{Dir: filepath.Join(dir, "cell")}); err != nil {
		return c, err
	}
	if c.base, err = c.host.Prepare(confine.Tree{Layers: []string{root}}); err != nil {
		return c, err
	}
	if ahead > 0 {
		c.ahead = newBlanks(c, ahead)
	}
	return c, nil
}

func (c *cells) close() error {
	var errs []error
	if c.ahead != nil {
		errs = append(errs, c.ahead.close())
	}
	if c.base != nil {
		errs = append(errs, c.base.Close())
	}
	if c.host != nil {
		c.host.Close()
	}
	return errors.Join(append(errs, c.groups.close())...)
}

// booted is one living cell and its group.
type booted struct {
	*confine.Cell
	group  *cgroup.Group
	attach cgroup.Attach
}

func (c *cells) boot(ctx context.Context, w *watch) (*booted, error) {
	blank, err := c.blank(ctx)
	w.lap("namespaces and cgroup")
	if err != nil {
		return nil, err
	}
	err = blank.limit()
	w.lap("limits")
	if err != nil {
		return nil, errors.Join(err, blank.discard())
	}
	cell, err := blank.Boot("bench", writeLimit, 0)
	w.lap("root file system")
	if err != nil {
		return nil, errors.Join(err, remove(blank.group))
	}
	return &booted{cell, blank.group, blank.attach}, nil
}

func (c *cells) blank(ctx context.Context) (blank, error) {
	if c.ahead == nil {
		return c.newBlank()
	}
	return c.ahead.take(ctx)
}

func (c *cells) cold(ctx context.Context) (sample, error) {
	out, err := newOutput()
	if err != nil {
		return sample{}, err
	}
	w := startWatch()
	cell, err := c.boot(ctx, w)
	if err != nil {
		return sample{}, errors.Join(err, out.close())
	}
	err = cell.first(out, w)
	return w.sample, errors.Join(err, cell.endIn(w))
}

func (c *cells) live(ctx context.Context) (living, error) { return c.boot(ctx, startWatch()) }

func (c *booted) exec(context.Context) (sample, error) {
	out, err := newOutput()
	if err != nil {
		return sample{}, err
	}
	w := startWatch()
	err = c.first(out, w)
	return w.sample, err
}

// first runs the first program to its end.
func (c *booted) first(out *output, w *watch) error {
	p, err := c.start(out)
	w.lap("exec")
	if err != nil {
		return errors.Join(err, out.close())
	}
	if err = out.write.Close(); err == nil {
		err = out.firstByte()
	}
	w.firstByte("program's first byte")
	_, waited := p.Wait()
	err = errors.Join(err, waited, out.drained())
	w.lap("program's end")
	return err
}

func (c *booted) start(out *output) (*spawn.Process, error) {
	p, _, err := c.Exec(confine.Command{Path: firstPath, Args: []string{firstPath}, Env: []string{"PATH=/"}, Dir: "/",
		UID: confine.UserID, GID: confine.UserID, Stdout: out.write, Group: c.attach})
	return p, err
}

func (c *booted) end() error { return c.endIn(startWatch()) }

func (c *booted) endIn(w *watch) error {
	err := c.Kill()
	_, waited := c.Wait()
	w.lap("kill and reap")
	err = errors.Join(err, waited, remove(c.group))
	w.lap("cgroup removal")
	return err
}
