package tool

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"aether/engine"
	"aether/guest"
	"aether/sandbox"
)

// idleKey is the metadata of a sandbox that ends when it was idle for so long.
const idleKey = "aether.idle"

// closeTime bounds the end of the sandboxes of a session.
const closeTime = 30 * time.Second

// Options are what a Session is made of.
type Options struct {
	Backend Backend
	// State is what sessions remember together; nil is one of its own.
	State *State
	// Profile is the tools that it has; empty is Full.
	Profile Profile
	// Idle ends sandboxes that were made without keep or a timeout when no call was about
	// them for so long. Zero does not.
	Idle time.Duration
	// Own has Close end the sandboxes that were made without keep. While the session is
	// open they do not count as idle.
	Own bool
	// Ephemeral says that the Backend ends with the session: keep is refused.
	Ephemeral bool
	// Expose has port_expose open ports of this host's loopback. Without it, that is
	// refused.
	Expose bool
	// Files is a directory of this host that file_upload reads from and file_download writes to,
	// and nothing besides: it is for callers who are its owner. Nil refuses that.
	Files *os.Root
	// Link has both answer with a URL. Nil refuses that.
	Link Link
	// Reveal tells the reason of defects, which may name things of the host.
	Reveal bool
	// Audit is told of every call. Nil tells nobody.
	Audit func(Call)
	// Logger is told what fails in the background. Nil means slog.Default().
	Logger *slog.Logger
}

// Call is one call as an audit trail has it.
type Call struct {
	Tool    string
	Sandbox string
	Began   time.Time
	Err     error
}

// Session calls tools on behalf of one caller. It may be used by many at once.
type Session struct {
	opts  Options
	state *State
	tools []*Tool
	log   *slog.Logger
	ports ports

	mu     sync.Mutex
	owned  map[string]bool
	lately map[string]glance

	life context.CancelFunc
	work sync.WaitGroup
}

// New makes a session, which must be closed. Errors: Invalid for the Options.
func New(opts Options) (*Session, error) {
	if opts.Backend == nil {
		return nil, sandbox.Invalidf("backend", "tools need one to act on")
	}
	tools, err := Of(cmp.Or(opts.Profile, Full))
	if err != nil {
		return nil, err
	}
	s := &Session{opts: opts, state: opts.State, tools: tools, log: cmp.Or(opts.Logger, slog.Default()), owned: map[string]bool{}, lately: map[string]glance{}}
	if s.state == nil {
		s.state = NewState()
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.life = cancel
	if opts.Own && opts.Idle > 0 {
		s.work.Go(func() { s.renew(ctx) })
	}
	return s, nil
}

// Tools lists those that the session has.
func (s *Session) Tools() []*Tool { return slices.Clone(s.tools) }

// Backend is what the session acts on.
func (s *Session) Backend() Backend { return s.opts.Backend }

// Close ends the sandboxes that the session owns, and closes the ports that it opened.
func (s *Session) Close(ctx context.Context) error {
	s.life()
	s.ports.close()
	s.work.Wait()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTime)
	defer cancel()
	s.mu.Lock()
	ids := slices.Collect(maps.Keys(s.owned))
	s.owned = map[string]bool{}
	s.mu.Unlock()
	var errs []error
	for _, id := range ids {
		if err := s.opts.Backend.Destroy(ctx, id); sandbox.ClassOf(err) != sandbox.NotFound && err != nil {
			errs = append(errs, err)
		}
		s.state.forget(id)
	}
	return errors.Join(errs...)
}

// Do calls a tool of the session's with arguments of JSON.
func (s *Session) Do(ctx context.Context, name string, arguments json.RawMessage) Result {
	began := time.Now()
	value, err := s.do(ctx, name, arguments)
	if s.opts.Audit != nil {
		s.opts.Audit(Call{Tool: clip(name, 64), Sandbox: sandboxOf(arguments, value), Began: began, Err: err})
	}
	if err != nil {
		return Result{Failure: s.failure(err)}
	}
	return Result{Value: value}
}

func (s *Session) do(ctx context.Context, name string, arguments json.RawMessage) (value any, err error) {
	t, err := named(name)
	if err == nil && !slices.Contains(s.tools, t) {
		err = &sandbox.Error{Class: sandbox.NotFound, Field: "name", Reason: fmt.Sprintf("%s is not in this profile", t.Name), Remedy: "use the full profile"}
	}
	if err != nil {
		return nil, err
	}
	return t.call(ctx, s, arguments)
}

// failure is what the caller is told. It names no tool that the caller does not have.
func (s *Session) failure(err error) *Failure {
	if sandbox.ClassOf(err) == sandbox.Internal && !s.opts.Reveal {
		s.log.Error("tool: call failed", "error", err)
	}
	f := failureOf(err, s.opts.Reveal)
	if f.Next != nil && !slices.ContainsFunc(s.tools, func(t *Tool) bool { return t.Name == f.Next.Tool }) {
		f.Next = nil
	}
	return f
}

// sandboxOf is the sandbox that a call is about, or that it made.
func sandboxOf(arguments json.RawMessage, value any) string {
	if made, ok := value.(Sandbox); ok {
		return made.ID
	}
	var about struct {
		Sandbox string `json:"sandbox"`
	}
	if json.Unmarshal(arguments, &about) != nil || !sandbox.IsName(about.Sandbox, maxID) {
		return ""
	}
	return about.Sandbox
}

const maxID = 64

// terms are when sandboxes end that a call makes.
type terms struct {
	Keep     bool `json:"keep,omitempty" jsonschema:"outlive this session"`
	TimeoutS int  `json:"timeout_s,omitempty" jsonschema:"end after so many seconds"`
}

const maxTimeout = 365 * 24 * 3600

// seconds reads a number of them. Errors: Invalid.
func seconds(field string, n, most int) (time.Duration, error) {
	if n < 0 || n > most {
		return 0, sandbox.Invalidf(field, "%d is not between 0 and %d", n, most)
	}
	return time.Duration(n) * time.Second, nil
}

// apply gives the timeout and the metadata of what is made by them.
func (s *Session) apply(t terms) (timeout time.Duration, metadata map[string]string, err error) {
	if t.Keep && s.opts.Ephemeral {
		return 0, nil, &sandbox.Error{Class: sandbox.Unsupported, Field: "keep", Reason: "this engine ends with the session, and everything in it", Remedy: "leave keep out; or have a daemon, by aether mcp --daemon"}
	}
	timeout, err = seconds("timeout_s", t.TimeoutS, maxTimeout)
	if err != nil || t.Keep || timeout > 0 || s.opts.Idle == 0 {
		return timeout, nil, err
	}
	return s.opts.Idle, map[string]string{idleKey: s.opts.Idle.String()}, nil
}

// own remembers what was made, to be ended by Close.
func (s *Session) own(t terms, made ...engine.Sandbox) {
	if !s.opts.Own || t.Keep {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range made {
		s.owned[one.ID] = true
	}
}

func (s *Session) disown(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.owned, id)
}

// enter finds the sandbox of a call that takes no longer than so much, and renews its
// idle time. Errors: NotFound.
func (s *Session) enter(ctx context.Context, id string, took time.Duration) (engine.Sandbox, error) {
	found, err := s.find(ctx, id)
	if err != nil {
		return found, err
	}
	if found.State == engine.Ended {
		e := &sandbox.Error{Class: sandbox.NotFound, Field: "sandbox", Reason: "the sandbox has ended"}
		if found.Exit != nil {
			e.Reason += " (" + string(found.Exit.Cause) + ")"
		}
		return found, advise(e, []sandbox.Class{sandbox.NotFound}, "sandbox_create", map[string]any{})
	}
	if err := s.touch(ctx, &found, took); err != nil {
		return found, err
	}
	s.remember(found)
	return found, nil
}

func (s *Session) find(ctx context.Context, id string) (engine.Sandbox, error) {
	if !sandbox.IsName(id, maxID) {
		return engine.Sandbox{}, advise(&sandbox.Error{Class: sandbox.NotFound, Field: "sandbox", Reason: "nothing has such an id"}, []sandbox.Class{sandbox.NotFound}, "sandbox_list", map[string]any{})
	}
	found, err := s.opts.Backend.Get(ctx, id)
	return found, advise(err, []sandbox.Class{sandbox.NotFound}, "sandbox_list", map[string]any{})
}

// glance is what was found of a sandbox a moment ago, of which so much is believed: whether
// it is still so, whoever uses it is told.
type glance struct {
	at, expires time.Time
	idle        time.Duration // zero for one that does not end by being idle
}

const (
	glanceTime = 10 * time.Second
	maxGlances = 256
)

func glanceOf(found engine.Sandbox) glance {
	g := glance{at: time.Now(), expires: found.Expires}
	if idle, err := time.ParseDuration(found.Metadata[idleKey]); err == nil && idle > 0 && !found.Expires.IsZero() {
		g.idle = idle
	}
	return g
}

// renewal is what a call that takes no longer than so much has to renew the time of a
// sandbox to, once a tenth of it is over; zero is nothing.
func (g glance) renewal(took time.Duration) time.Duration {
	if took <= g.idle/10 {
		took = 0 // which is within what is left after each call
	}
	if g.idle == 0 || time.Until(g.expires) > took+g.idle*9/10 {
		return 0
	}
	return took + g.idle
}

// remember spares the next call about a sandbox a look at it, which over a daemon takes
// about as long as a command does.
func (s *Session) remember(found engine.Sandbox) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.lately) >= maxGlances {
		clear(s.lately)
	}
	if delete(s.lately, found.ID); found.State == engine.Running {
		s.lately[found.ID] = glanceOf(found)
	}
}

// seen says whether a sandbox ran a moment ago, and needs no renewal.
func (s *Session) seen(id string, took time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	g, ok := s.lately[id]
	return ok && time.Since(g.at) < glanceTime && g.renewal(took) == 0
}

// touch renews the idle time of a sandbox if that is due.
func (s *Session) touch(ctx context.Context, found *engine.Sandbox, took time.Duration) error {
	to := glanceOf(*found).renewal(took)
	if to == 0 || found.State != engine.Running {
		return nil
	}
	now, err := s.opts.Backend.SetTimeout(ctx, found.ID, to, "")
	if err == nil {
		found.Expires = now.Expires
	}
	return err
}

// renew keeps what the session owns from being idle.
func (s *Session) renew(ctx context.Context) {
	look := time.NewTicker(s.opts.Idle / 3)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-look.C:
		}
		s.mu.Lock()
		ids := slices.Collect(maps.Keys(s.owned))
		s.mu.Unlock()
		for _, id := range ids {
			found, err := s.opts.Backend.Get(ctx, id)
			if err == nil && found.State != engine.Ended {
				err = s.touch(ctx, &found, 0)
			} else if err == nil || sandbox.ClassOf(err) == sandbox.NotFound {
				s.disown(id)
				continue
			}
			if err != nil && ctx.Err() == nil {
				s.log.Warn("tool: a sandbox could not be kept from being idle", "sandbox", id, "error", err)
			}
		}
	}
}

// awake does something in a sandbox. Which of those that are paused is resumed by that, as
// one that the last daemon interrupted, is the engine's to say. Errors: Conflict for another.
func (s *Session) awake(ctx context.Context, id string, took time.Duration, do func() error) error {
	known := s.seen(id, took)
	if !known {
		if _, err := s.enter(ctx, id, took); err != nil {
			return err
		}
	}
	err := do()
	switch class := sandbox.ClassOf(err); {
	case err == nil || class != sandbox.Conflict && !(known && class == sandbox.NotFound):
		return err
	}
	found, why := s.enter(ctx, id, took)
	switch {
	case why != nil:
		return why
	case found.State != engine.Paused || sandbox.ClassOf(err) != sandbox.Conflict:
		return err
	}
	return &advice{&sandbox.Error{Class: sandbox.Conflict, Field: "sandbox", Reason: "the sandbox is paused", Remedy: "resume it"}, Next{"sandbox_resume", map[string]any{"sandbox": id}}}
}

// inside has a client of a sandbox's guest service do something.
func (s *Session) inside(ctx context.Context, id string, took time.Duration, do func(*guest.Client) error) error {
	return s.awake(ctx, id, took, func() error {
		client, release, err := s.opts.Backend.Guest(ctx, id)
		if err != nil {
			return err
		}
		defer release()
		return do(client)
	})
}
