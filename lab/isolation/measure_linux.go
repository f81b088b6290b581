package isolation

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"aether/driver/guestagent"
	"aether/guest"
	"aether/internal/bounded"
	"aether/internal/companion"
	"aether/internal/host/isolationprobe"
	"aether/sandbox"
)

// Name is the program that is carried inside.
const Name = "aether-probe"

// PathVariable names it where it is neither beside this program nor in PATH.
const PathVariable = "AETHER_PROBE"

// limits are small, so that little is used up to reach them.
var limits = sandbox.Limits{MemoryBytes: 256 << 20, Processes: 48, DiskBytes: 32 << 20}

// Measure makes a sandbox by the driver and judges it. The sandbox has no network, and small
// limits as far as the driver holds them. Errors: those of the driver's Create, and
// Unavailable where there is no aether-probe: the axis is then absent, for that reason.
func Measure(ctx context.Context, driver sandbox.Driver, opts Options) (r Result, err error) {
	opts = opts.withDefaults()
	program := opts.Program
	if program == "" {
		if program, err = (companion.Program{Name: Name, Variable: PathVariable, For: "isolation"}).Find(); err != nil {
			return r, err
		}
	}
	planted, err := plant(program)
	if err != nil {
		return r, fmt.Errorf("plant canaries: %w", err)
	}
	defer func() { err = errors.Join(err, planted.remove()) }()
	opts.Progress.Say("%s: a sandbox", driver.Info().Name)
	s, err := open(ctx, driver, opts)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	if err := s.carry(ctx, program); err != nil {
		return r, fmt.Errorf("%s: put %s inside: %w", driver.Info().Name, Name, err)
	}
	return s.measure(ctx, planted)
}

// site is a sandbox that is measured.
type site struct {
	opts     Options
	driver   sandbox.Driver
	instance sandbox.Instance
	client   *guest.Client
	user     string
	path     string // of the program inside
	held     sandbox.Limits
	refused  map[string]string // why limits are not held, by field
}

// open makes the sandbox, without the limits that the driver refuses.
func open(ctx context.Context, driver sandbox.Driver, opts Options) (*site, error) {
	s := &site{opts: opts, driver: driver, path: "/tmp/" + mark("probe"), held: limits, refused: map[string]string{}}
	for {
		made, err := s.create(ctx)
		if err == nil {
			s.instance = made
			break
		}
		if class := sandbox.ClassOf(err); class != sandbox.Unsupported && class != sandbox.Unavailable || !s.drop(err) {
			return nil, err
		}
	}
	return s, s.enter(ctx)
}

func (s *site) create(ctx context.Context) (sandbox.Instance, error) {
	ctx, cancel := context.WithTimeout(ctx, s.opts.Patience)
	defer cancel()
	return s.driver.Create(ctx, sandbox.Spec{Image: s.opts.Image, Limits: s.held})
}

// drop does without the limit that an error is about, or without all of them, and says
// whether there was one.
func (s *site) drop(err error) bool {
	var e *sandbox.Error
	errors.As(err, &e)
	fields := map[string]func(*sandbox.Limits){
		"limits.memory":    func(l *sandbox.Limits) { l.MemoryBytes = 0 },
		"limits.processes": func(l *sandbox.Limits) { l.Processes = 0 },
		"limits.disk":      func(l *sandbox.Limits) { l.DiskBytes = 0 },
	}
	before := s.held
	for field, without := range fields {
		if fields[e.Field] == nil || field == e.Field {
			without(&s.held)
			s.refused[field] = err.Error()
		}
	}
	return s.held != before
}

// enter finds the strongest user that the sandbox has: what root inside cannot reach, others
// cannot.
func (s *site) enter(ctx context.Context) error {
	var failed error
	for _, user := range []string{"root", ""} {
		s.client, s.user = guest.ClientFor(s.instance, guest.ClientOptions{User: user}), user
		if _, _, failed = s.run(ctx, guest.Cmd{Path: "/bin/sh", Args: []string{"-c", "id -u || true"}}); failed == nil {
			return nil
		}
		s.client.Close()
	}
	return errors.Join(failed, s.instance.Destroy(context.Background()))
}

// close ends the sandbox. The program goes first: in a bad sandbox it is among the host's
// files.
func (s *site) close() error {
	ctx, stop := s.patient(context.Background())
	defer stop()
	if err := s.client.Remove(ctx, s.path); err != nil {
		s.opts.Progress.Say("%s: %s is left to the sandbox's end: %v", s.driver.Info().Name, s.path, err)
	}
	s.client.Close()
	return s.instance.Destroy(context.Background())
}

func (s *site) carry(ctx context.Context, program string) error {
	file, err := os.Open(program)
	if err != nil {
		return err
	}
	defer file.Close()
	ctx, stop := s.patient(ctx)
	defer stop()
	if err := s.client.Write(ctx, s.path, file); err != nil {
		return err
	}
	status, _, err := s.run(ctx, guest.Cmd{Path: "/bin/sh", Args: []string{"-c", "chmod 755 " + s.path}})
	if err == nil && status.Code != 0 {
		err = fmt.Errorf("chmod ends with %d", status.Code)
	}
	return err
}

// patient gives a context that ends after some time. It has no deadline, which the sandbox
// would take for the command's own.
func (s *site) patient(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	late := time.AfterFunc(s.opts.Patience, func() {
		cancel(&sandbox.Error{Class: sandbox.Timeout, Op: s.driver.Info().Name, Reason: fmt.Sprintf("it took longer than %v", s.opts.Patience)})
	})
	return ctx, func() { late.Stop(); cancel(nil) }
}

// said is what a command wrote.
type said struct{ out, errs bounded.Output }

// maxErrors is how much of a command's errors is kept.
const maxErrors = 4 << 10

func (s *site) run(ctx context.Context, cmd guest.Cmd) (guest.Status, *said, error) {
	ctx, stop := s.patient(ctx)
	defer stop()
	w := &said{bounded.Output{What: "what the program says", Max: isolationprobe.MaxDocument}, bounded.Output{What: "the program's errors", Max: maxErrors}}
	cmd.Stdout, cmd.Stderr = &w.out, &w.errs
	running, err := s.client.Start(ctx, cmd)
	if err != nil {
		return guest.Status{}, w, err
	}
	status, err := running.Wait()
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = cause
	}
	return status, w, err
}

func (s *site) measure(ctx context.Context, planted *canaries) (r Result, err error) {
	s.opts.Progress.Say("%s: probes", s.driver.Info().Name)
	o := known()
	if o.before, err = count(); err != nil {
		return r, err
	}
	document, user, err := s.look(ctx, planted.request)
	if err != nil {
		return r, fmt.Errorf("%s: %w", s.driver.Info().Name, err)
	}
	if o.after, err = count(); err != nil {
		return r, err
	}
	o.user, o.reached = user, planted.touched()
	s.opts.Progress.Say("%s: limits", s.driver.Info().Name)
	defer func() { s.opts.Progress.Say("%s: done", s.driver.Info().Name) }()
	r = judge(s.driver.Info(), document, s.exhaust(ctx), o)
	r.User = s.user
	return r, ctx.Err()
}

// look runs the program and, meanwhile, looks for it on the host.
func (s *site) look(ctx context.Context, request isolationprobe.Request) (d isolationprobe.Document, user *int, err error) {
	asked, err := json.Marshal(request)
	if err != nil {
		return d, nil, err
	}
	watching, stop := context.WithCancel(ctx)
	own := mark("inside")
	found := watch(watching, s.path, own)
	status, w, err := s.run(ctx, guest.Cmd{Path: s.path, Args: []string{isolationprobe.ModeLook, own}, Stdin: bytes.NewReader(asked)})
	stop()
	user = <-found
	if err != nil {
		return d, nil, err
	}
	if status.Code != 0 || status.Signal != 0 {
		return d, nil, fmt.Errorf("%s ends with %+v: %.400s", Name, status, guestagent.Printable(w.errs.String()))
	}
	d, err = isolationprobe.Parse(w.out.Bytes())
	return d, user, err
}

// use is something that is used up: its limit, how much more is tried, and how much more
// than the limit the sandbox may have for itself.
type use struct {
	probe, mode, field string
	limit, most, slack int64
}

func (s *site) exhaust(ctx context.Context) (list []isolationprobe.Sighting) {
	for _, u := range []use{
		{"exhaust-processes", isolationprobe.ModeProcesses, "limits.processes", s.held.Processes, s.held.Processes + 2*guestagent.Overhead, guestagent.Overhead},
		{"exhaust-disk", isolationprobe.ModeDisk, "limits.disk", s.held.DiskBytes, 2 * s.held.DiskBytes, s.held.DiskBytes / 4},
		// The last, since it may be the sandbox's end.
		{"exhaust-memory", isolationprobe.ModeMemory, "limits.memory", s.held.MemoryBytes, 2 * s.held.MemoryBytes, s.held.MemoryBytes / 4},
	} {
		list = append(list, s.useUp(ctx, u))
	}
	return list
}

// useUp is never tried without a limit: nothing would stop it but the host's own end.
func (s *site) useUp(ctx context.Context, u use) isolationprobe.Sighting {
	sighting := isolationprobe.Sighting{Name: u.probe, State: isolationprobe.Unknown}
	if u.limit == 0 {
		sighting.Seen = guestagent.Printable(fmt.Sprintf("not tried without a limit: %.160s", s.refused[u.field]))
		return sighting
	}
	status, w, err := s.run(ctx, guest.Cmd{Path: s.path, Args: []string{u.mode, fmt.Sprint(u.most)}})
	var had int64
	for line := range strings.Lines(w.out.String()) {
		if _, err := fmt.Sscan(line, &had); err != nil {
			break
		}
	}
	ended := fmt.Sprintf("%v", err)
	if err == nil {
		ended = fmt.Sprintf("code %d, signal %d %.60s", status.Code, status.Signal, strings.TrimSpace(guestagent.Printable(w.errs.String())))
	}
	sighting.Seen = fmt.Sprintf("had %d where the limit is %d: %.120s", had, u.limit, ended)
	switch {
	case had > u.limit+u.slack:
		sighting.State = isolationprobe.Open
	case had > 0 && (err != nil || status.Code != 0 || status.Signal != 0):
		sighting.State = isolationprobe.Closed
	}
	return sighting
}
