package monitor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"time"

	"aether/lab"
	"aether/sandbox"
)

// Crowds makes children of one machine by one call, again and again: Options.Children of
// them, Options.Crowds times. What was found before a failure is given with it.
func Crowds(ctx context.Context, of lab.System, opts Options) (list []Crowd, err error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	opts = opts.withDefaults()
	b := &bench{opts: opts}
	defer func() { err = errors.Join(err, b.close()) }()
	s := &side{System: of, opts: opts}
	if err := b.prepare(ctx, s); err != nil {
		return nil, err
	}
	return s.crowds(ctx)
}

func (s *side) crowds(ctx context.Context) (list []Crowd, err error) {
	for n := range s.opts.Crowds {
		c, err := s.crowd(ctx, s.opts.Children)
		if err != nil {
			return list, fmt.Errorf("crowd %d of %d: %w", n+1, s.opts.Crowds, err)
		}
		s.opts.Progress.Say("crowd %d of %d: %d children in %.1f s; guest %.0f KiB, monitor %.0f KiB, host %.0f KiB each",
			n+1, s.opts.Crowds, c.Children, c.Seconds, c.Replied.GuestKiB, c.Replied.MonitorKiB, c.Replied.HostKiB)
		list = append(list, c)
	}
	return list, nil
}

func (s *side) crowd(ctx context.Context, n int) (c Crowd, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(n)*patience/10+patience)
	defer cancel()
	before, err := lab.Settled(ctx, lab.Memory.Used)
	if err != nil {
		return c, err
	}
	old, err := withGuests()
	if err != nil {
		return c, err
	}
	began := time.Now()
	children, err := s.source.Fork(ctx, make([]sandbox.Spec, n))
	if err != nil {
		return c, err
	}
	defer func() {
		for _, child := range children {
			err = errors.Join(err, child.Destroy(context.Background()))
		}
	}()
	if err := each(ctx, children, reply); err != nil {
		return c, err
	}
	c.Children, c.Seconds = len(children), time.Since(began).Seconds()
	if c.Replied, err = weigh(ctx, before, old, n); err != nil {
		return c, err
	}
	if err := each(ctx, children, (&roll{}).call); err != nil {
		return c, err
	}
	c.Ran, err = weigh(ctx, before, old, n)
	return c, err
}

// withGuests are all processes but monitors of ours that have no guest yet: those that wait may
// be the children's, and what they and those in their place hold is on the children's account.
func withGuests() (lab.Processes, error) {
	all, err := lab.ReadProcesses()
	if err != nil {
		return nil, err
	}
	without, monitors := map[int]string{}, map[string]bool{} // by the program that they run
	for pid, p := range all {
		if p.Parent != os.Getpid() {
			continue
		}
		w, err := readWeight(pid)
		var program string
		if err == nil {
			program, err = os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
		}
		switch {
		case ended(err):
		case err != nil:
			return nil, err
		case w.GuestKiB > 0:
			monitors[program] = true
		default:
			without[pid] = program
		}
	}
	for pid, program := range without {
		if monitors[program] {
			delete(all, pid)
		}
	}
	return all, nil
}

// ended says that a process did before it was weighed, as a monitor may that waits no longer.
func ended(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) }

func each(ctx context.Context, children []sandbox.Instance, do func(context.Context, sandbox.Instance) error) error {
	for n, child := range children {
		if err := do(ctx, child); err != nil {
			return fmt.Errorf("child %d: %w%s", n, err, fate(ctx, child))
		}
	}
	return nil
}

// fate is how a child ended that did not do what it was asked for, or that it did not.
func fate(ctx context.Context, child sandbox.Instance) string {
	const soon = 5 * time.Second
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), soon)
	defer cancel()
	exit, err := child.Wait(ctx)
	if err != nil {
		return fmt.Sprintf(" (it did not end within %v)", soon)
	}
	return fmt.Sprintf(" (it has ended: %s, %s)", exit.Cause, exit.Detail)
}

// roll is what children have said of themselves.
type roll struct{ seen map[string]bool }

// call has a child say its name, and a random number that no other one has said.
func (r *roll) call(ctx context.Context, in sandbox.Instance) error {
	said, err := run(ctx, in, nil, "/proc/sys/kernel/hostname", "/proc/sys/kernel/random/uuid")
	if err != nil {
		return err
	}
	name, random, _ := strings.Cut(strings.TrimSpace(said), "\n")
	if name != in.ID() || random == "" || r.seen[random] {
		return fmt.Errorf("%s says %q, as another has", in.ID(), said)
	}
	if r.seen == nil {
		r.seen = map[string]bool{}
	}
	r.seen[random] = true
	return nil
}

// weigh looks at the processes of so many children, which are those that are new.
func weigh(ctx context.Context, before lab.Memory, old lab.Processes, n int) (w Weight, err error) {
	with, err := lab.Settled(ctx, lab.Memory.Used)
	if err != nil {
		return w, err
	}
	all, err := lab.ReadProcesses()
	if err != nil {
		return w, err
	}
	ours, err := all.Of(nil, old)
	if err != nil {
		return w, err
	}
	machines := 0
	for pid := range ours {
		one, err := readWeight(pid)
		if ended(err) {
			continue
		}
		if err != nil {
			return w, err
		}
		if one.GuestKiB > 0 {
			machines++
		}
		w.GuestKiB, w.OwnKiB, w.MonitorKiB = w.GuestKiB+one.GuestKiB, w.OwnKiB+one.OwnKiB, w.MonitorKiB+one.MonitorKiB
	}
	if machines != n {
		return w, fmt.Errorf("%d of %d new processes have the memory of a guest, for %d children", machines, len(ours), n)
	}
	share := 1 / float64(n)
	w.GuestKiB, w.OwnKiB, w.MonitorKiB = w.GuestKiB*share, w.OwnKiB*share, w.MonitorKiB*share
	w.HostKiB = float64(with.Used()-before.Used()) * share
	_, w.Parts = lab.Held(before, with, before, n)
	return w, nil
}
