package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"

	"aether/lab"
)

// Measure runs the whole benchmark.
func Measure(ctx context.Context, opts Options, say *lab.Progress) (r Report, err error) {
	f, err := newField(ctx, opts, say)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, f.close()) }()
	r.Systems, r.cores = f.systems, runtime.NumCPU()
	if r.Cold, err = f.measureCold(ctx); err != nil {
		return r, err
	}
	if r.Exec, err = f.measureExec(ctx); err != nil {
		return r, err
	}
	if r.Churn, err = f.measureChurn(ctx); err != nil {
		return r, err
	}
	if r.Idle, err = f.measureIdle(ctx); err != nil {
		return r, err
	}
	r.Targets = judge(r)
	return r, nil
}

// field is where the contenders meet.
type field struct {
	opts     Options
	say      *lab.Progress
	dir      string
	root     string // that all have
	launcher *launcher
	entries  []entry  // who takes part
	systems  []System // who was asked to
}

type entry struct {
	name string
	contender
}

// distinct are those whose living sandboxes are like nobody else's here.
func (f *field) distinct() []entry {
	return slices.DeleteFunc(slices.Clone(f.entries), func(e entry) bool { return e.name == nameFresh })
}

func ours(name string) bool { return slices.Contains([]string{nameCell, nameFresh, nameService}, name) }

// newField makes every contender ready that can run here; the others keep their
// reason.
func newField(ctx context.Context, opts Options, say *lab.Progress) (f *field, err error) {
	if f, err = emptyField(opts, say); err != nil {
		return f, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.close())
		}
	}()
	for _, name := range Systems() {
		if slices.Contains(opts.Only, name) {
			if err = f.enter(ctx, name); err != nil {
				return f, err
			}
		}
	}
	if len(f.entries) == 0 {
		return f, fmt.Errorf("nothing can be measured here: %s", f.reasons())
	}
	return f, ctx.Err()
}

// emptyField has what contenders need, and none of them.
func emptyField(opts Options, say *lab.Progress) (f *field, err error) {
	f = &field{opts: opts, say: say}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.close())
		}
	}()
	if f.dir, err = os.MkdirTemp("", "aether-bench-"); err != nil {
		return f, err
	}
	// Ids of sandboxes have to reach the root file system in it.
	if err = os.Chmod(f.dir, 0o755); err != nil {
		return f, err
	}
	if f.launcher, err = newLauncher(f.dir); err != nil {
		return f, err
	}
	f.root, err = newRoot(f.dir)
	return f, err
}

// enter lets a contender take part if it is there and passes a trial. A peer
// that does not is left out; a cell that does not is a failure.
func (f *field) enter(ctx context.Context, name string) error {
	c, version, err := f.open(ctx, name)
	if err == nil {
		if _, err = c.cold(ctx); err != nil {
			err = errors.Join(err, c.close())
		}
	}
	s := System{Name: name, Version: version}
	switch {
	case err == nil:
		f.entries = append(f.entries, entry{name, c})
	case ours(name):
		return fmt.Errorf("%s: %w", name, err)
	default:
		s.Skipped = err.Error()
	}
	f.systems = append(f.systems, s)
	return nil
}

func (f *field) reasons() string {
	var text string
	for _, s := range f.systems {
		text += "\n" + s.Name + ": " + s.Skipped
	}
	return text
}

func (f *field) close() error {
	var errs []error
	for _, e := range f.entries {
		errs = append(errs, e.close())
	}
	if f.launcher != nil {
		errs = append(errs, f.launcher.close())
	}
	if f.dir != "" {
		errs = append(errs, os.RemoveAll(f.dir))
	}
	return errors.Join(errs...)
}
