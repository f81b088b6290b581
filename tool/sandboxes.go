package tool

import (
	"context"
	"maps"
	"strings"
	"time"

	"aether/engine"
	"aether/sandbox"
)

// Sandbox is what agents are told of one.
type Sandbox struct {
	ID     string `json:"sandbox"`
	State  string `json:"state"`
	Driver string `json:"driver"`
	// Why says how the driver was chosen.
	Why      string    `json:"why,omitempty"`
	Image    string    `json:"image,omitempty"`
	Template string    `json:"template,omitempty"`
	Snapshot string    `json:"snapshot,omitempty"`
	Parent   string    `json:"parent,omitempty"`
	Created  time.Time `json:"created"`
	// Expires is when it ends, unless IdleS says that calls renew that.
	Expires time.Time `json:"expires,omitzero"`
	IdleS   int       `json:"idle_s,omitempty"`
	Keep    bool      `json:"keep,omitempty"`
	// Reason is why less was kept of it than was asked for, or how it ended.
	Reason string `json:"reason,omitempty"`
}

func viewOf(s engine.Sandbox) Sandbox {
	v := Sandbox{ID: s.ID, State: string(s.State), Driver: s.Driver, Why: s.Why, Image: s.Spec.Image, Template: s.Template, Snapshot: s.Snapshot, Parent: s.Parent,
		Created: s.Created, Expires: s.Expires, Keep: s.Keep, Reason: s.Reason}
	if idle, err := time.ParseDuration(s.Metadata[idleKey]); err == nil {
		v.IdleS = int(idle.Seconds())
	}
	if s.Exit != nil {
		v.Reason = string(s.Exit.Cause)
		if s.Exit.Detail != "" {
			v.Reason += ": " + s.Exit.Detail
		}
	}
	return v
}

func viewsOf(list []engine.Sandbox) []Sandbox {
	views := make([]Sandbox, len(list))
	for i, s := range list {
		views[i] = viewOf(s)
	}
	return views
}

// Sandboxes is a list of them. Next is the after of the next page.
type Sandboxes struct {
	Sandboxes []Sandbox `json:"sandboxes"`
	Next      string    `json:"next,omitempty"`
}

// of is the sandbox that a call is about.
type of struct {
	Sandbox string `json:"sandbox"`
}

// none is the arguments of a tool that takes none.
type none struct{}

type createArgs struct {
	Image     string   `json:"image,omitempty" jsonschema:"registry reference; default: this host's programs, read-only"`
	Template  string   `json:"template,omitempty" jsonschema:"start from this template instead"`
	Isolation string   `json:"isolation,omitempty" enum:"process,kernel,hardware" jsonschema:"weakest boundary that will do"`
	Driver    string   `json:"driver,omitempty"`
	MemoryMB  int      `json:"memory_mb,omitempty"`
	CPUs      float64  `json:"cpus,omitempty"`
	DiskMB    int      `json:"disk_mb,omitempty"`
	Env       []string `json:"env,omitempty" jsonschema:"each NAME=VALUE"`
	Allow     []string `json:"allow,omitempty" jsonschema:"hosts to reach, as api.example.com:443 or packages; default: no network"`
	terms
}

type listArgs struct {
	State string `json:"state,omitempty" enum:"running,paused,ended"`
	After string `json:"after,omitempty" jsonschema:"next of the page before"`
}

type fidelityArgs struct {
	of
	FilesOnly bool `json:"files_only,omitempty" jsonschema:"without memory and processes"`
}

type forkArgs struct {
	of
	Count int `json:"count,omitempty" jsonschema:"children, 1 to 100"`
	terms
}

type rollbackArgs struct {
	of
	Snapshot string `json:"snapshot,omitempty"`
	Mark     string `json:"mark,omitempty"`
}

type markArgs struct {
	of
	Name string `json:"name,omitempty"`
}

type timeoutArgs struct {
	of
	TimeoutS int    `json:"timeout_s" jsonschema:"seconds from now; 0 is no end"`
	Then     string `json:"then,omitempty" enum:"kill,pause"`
}

func sandboxTools() []*Tool {
	return []*Tool{
		define("sandbox_create", Writes, "Make an isolated sandbox to run commands and code in. Its id is the sandbox argument of other tools. It ends with this session unless keep is set.", (*Session).create).inCompact(),
		define("sandbox_list", Reads, "List your sandboxes, newest first.", (*Session).list),
		define("sandbox_get", Reads, "What is known of a sandbox, ended ones included.", (*Session).get),
		define("sandbox_destroy", Destroys, "End a sandbox and everything in it.", (*Session).destroy).inCompact().again(),
		define("sandbox_pause", Writes, "Keep a sandbox on disk with nothing running, until sandbox_resume.", (*Session).pause),
		define("sandbox_resume", Writes, "Let a paused sandbox go on.", (*Session).resume),
		define("sandbox_fork", Writes, "Branch a running sandbox: children go on from here with its files, memory and processes, apart from each other. Try alternatives side by side, then destroy the losers.", (*Session).fork).inCompact(),
		define("sandbox_mark", Writes, "Mark this moment, in memory, for sandbox_rollback: faster than a snapshot, gone with the sandbox.", (*Session).mark),
		define("sandbox_rollback", Destroys, "Make a sandbox what it was at a snapshot or mark. What happened since is lost.", (*Session).rollback).inCompact(),
		define("sandbox_timeout", Writes, "Change when a sandbox ends.", (*Session).setTimeout).again(),
		define("sandbox_metrics", Reads, "Memory, CPU time, processes and disk of a sandbox, and limits it has hit.", (*Session).metrics),
	}
}

const mega = 1 << 20

func (s *Session) create(ctx context.Context, in createArgs) (Sandbox, error) {
	req, err := s.createRequest(in)
	if err != nil {
		return Sandbox{}, err
	}
	made, err := s.opts.Backend.Create(ctx, req)
	if err != nil {
		return Sandbox{}, advise(err, []sandbox.Class{sandbox.Unavailable, sandbox.Unsupported}, "system_list", map[string]any{})
	}
	s.own(in.terms, made)
	return viewOf(made), nil
}

func (s *Session) createRequest(in createArgs) (req engine.CreateRequest, err error) {
	env, err := environment(in.Env)
	if err != nil {
		return req, err
	}
	if in.MemoryMB < 0 || in.DiskMB < 0 || in.MemoryMB > mega || in.DiskMB > 64*mega {
		return req, sandbox.Invalidf("memory_mb", "a limit is negative, or more than any host has")
	}
	if in.Isolation != "" {
		if req.Spec.Isolation, err = sandbox.ParseBoundary(in.Isolation); err != nil {
			return req, err
		}
	}
	req.Spec.Image, req.Template, req.Driver, req.Keep = in.Image, in.Template, in.Driver, in.Keep
	req.Spec.Command.Env = env
	req.Spec.Limits = sandbox.Limits{MemoryBytes: int64(in.MemoryMB) * mega, CPUs: in.CPUs, DiskBytes: int64(in.DiskMB) * mega}
	if len(in.Allow) > 0 {
		req.Spec.Network = sandbox.Network{Mode: sandbox.EgressNetwork, Allow: in.Allow}
	}
	req.Timeout, req.Metadata, err = s.apply(in.terms)
	return req, err
}

// environment reads NAME=VALUE. Errors: Invalid.
func environment(list []string) (map[string]string, error) {
	var env map[string]string
	for _, entry := range list {
		name, value, ok := strings.Cut(entry, "=")
		if !ok || name == "" {
			return nil, sandbox.Invalidf("env", "%.40q is not NAME=VALUE", entry)
		}
		if env == nil {
			env = map[string]string{}
		}
		env[name] = value
	}
	return env, nil
}

func (s *Session) list(ctx context.Context, in listArgs) (Sandboxes, error) {
	q := engine.Query{After: in.After, Limit: 50}
	if in.State != "" {
		q.States = []engine.State{engine.State(in.State)}
	}
	page, err := s.opts.Backend.List(ctx, q)
	return Sandboxes{viewsOf(page.Sandboxes), page.Next}, err
}

func (s *Session) get(ctx context.Context, in of) (Sandbox, error) {
	found, err := s.find(ctx, in.Sandbox)
	if err == nil && found.State != engine.Ended {
		err = s.touch(ctx, &found, 0)
	}
	return viewOf(found), err
}

// Done says what a call did where there is nothing else to say.
type Done struct {
	Done string `json:"done"`
}

func (s *Session) destroy(ctx context.Context, in of) (Done, error) {
	found, err := s.find(ctx, in.Sandbox)
	if err != nil {
		return Done{}, err
	}
	s.ports.closeOf(found.ID)
	if err := s.opts.Backend.Destroy(ctx, found.ID); err != nil {
		return Done{}, err
	}
	s.disown(found.ID)
	s.state.forget(found.ID)
	return Done{"the sandbox has ended"}, nil
}

func fidelityOf(filesOnly bool) sandbox.Fidelity {
	if filesOnly {
		return sandbox.Filesystem
	}
	return ""
}

func (s *Session) pause(ctx context.Context, in fidelityArgs) (Sandbox, error) {
	if _, err := s.enter(ctx, in.Sandbox, 0); err != nil {
		return Sandbox{}, err
	}
	now, err := s.opts.Backend.Pause(ctx, in.Sandbox, fidelityOf(in.FilesOnly))
	return viewOf(now), err
}

func (s *Session) resume(ctx context.Context, in fidelityArgs) (Sandbox, error) {
	if _, err := s.enter(ctx, in.Sandbox, 0); err != nil {
		return Sandbox{}, err
	}
	now, err := s.opts.Backend.Resume(ctx, in.Sandbox, fidelityOf(in.FilesOnly))
	return viewOf(now), err
}

func (s *Session) fork(ctx context.Context, in forkArgs) (Sandboxes, error) {
	if _, err := s.enter(ctx, in.Sandbox, 0); err != nil {
		return Sandboxes{}, err
	}
	timeout, metadata, err := s.apply(in.terms)
	if err != nil {
		return Sandboxes{}, err
	}
	children, err := s.opts.Backend.Fork(ctx, in.Sandbox, engine.ForkRequest{Count: in.Count, Keep: in.Keep, Timeout: timeout, Metadata: metadata})
	if err != nil {
		return Sandboxes{}, advise(err, []sandbox.Class{sandbox.Unsupported, sandbox.Conflict}, "snapshot_create", map[string]any{"sandbox": in.Sandbox, "files_only": true})
	}
	s.own(in.terms, children...)
	for _, child := range children {
		s.state.copyCodes(in.Sandbox, child.ID, true)
	}
	return Sandboxes{Sandboxes: viewsOf(children)}, nil
}

// Mark is a moment of a sandbox.
type Mark struct {
	Sandbox string `json:"sandbox"`
	Mark    string `json:"mark"`
}

func (s *Session) mark(ctx context.Context, in markArgs) (Mark, error) {
	if _, err := s.enter(ctx, in.Sandbox, 0); err != nil {
		return Mark{}, err
	}
	made, err := s.opts.Backend.Mark(ctx, in.Sandbox, in.Name)
	if err != nil {
		return Mark{}, advise(err, []sandbox.Class{sandbox.Unsupported, sandbox.Unavailable}, "snapshot_create", map[string]any{"sandbox": in.Sandbox})
	}
	s.state.copyCodes(in.Sandbox, ofMark(in.Sandbox, made.Name), false)
	return Mark{in.Sandbox, made.Name}, nil
}

func (s *Session) rollback(ctx context.Context, in rollbackArgs) (Sandbox, error) {
	if _, err := s.enter(ctx, in.Sandbox, 0); err != nil {
		return Sandbox{}, err
	}
	now, err := s.opts.Backend.Rollback(ctx, in.Sandbox, engine.RollbackRequest{Snapshot: in.Snapshot, Mark: in.Mark})
	if err != nil {
		return Sandbox{}, advise(err, []sandbox.Class{sandbox.NotFound}, "snapshot_list", map[string]any{"sandbox": in.Sandbox})
	}
	s.state.forget(in.Sandbox)
	from := ofSnapshot(in.Snapshot)
	if in.Mark != "" {
		from = ofMark(in.Sandbox, in.Mark)
	}
	s.state.copyCodes(from, in.Sandbox, false)
	return viewOf(now), nil
}

// setTimeout sets when a sandbox ends, which calls do not renew any more.
func (s *Session) setTimeout(ctx context.Context, in timeoutArgs) (Sandbox, error) {
	found, err := s.enter(ctx, in.Sandbox, 0)
	if err != nil {
		return Sandbox{}, err
	}
	after, err := seconds("timeout_s", in.TimeoutS, maxTimeout)
	if err != nil {
		return Sandbox{}, err
	}
	if found.Metadata[idleKey] != "" {
		left := maps.Clone(found.Metadata)
		delete(left, idleKey)
		if _, err := s.opts.Backend.SetMetadata(ctx, in.Sandbox, left); err != nil {
			return Sandbox{}, err
		}
	}
	now, err := s.opts.Backend.SetTimeout(ctx, in.Sandbox, after, engine.Then(in.Then))
	return viewOf(now), err
}

// Metrics are what a sandbox uses. What is not known is absent.
type Metrics struct {
	MemoryBytes     *int64   `json:"memory_bytes,omitempty"`
	MemoryPeakBytes *int64   `json:"memory_peak_bytes,omitempty"`
	CPUSeconds      *float64 `json:"cpu_s,omitempty"`
	Processes       *int64   `json:"processes,omitempty"`
	DiskBytes       *int64   `json:"disk_bytes,omitempty"`
	DiskFreeBytes   *int64   `json:"disk_free_bytes,omitempty"`
	// Reached are the limits that it has run into.
	Reached []string `json:"limits_reached,omitempty"`
}

func (s *Session) metrics(ctx context.Context, in of) (Metrics, error) {
	if _, err := s.enter(ctx, in.Sandbox, 0); err != nil {
		return Metrics{}, err
	}
	stats, err := s.opts.Backend.Stats(ctx, in.Sandbox)
	if err != nil {
		return Metrics{}, err
	}
	m := Metrics{MemoryBytes: stats.MemoryBytes, MemoryPeakBytes: stats.MemoryPeakBytes, Processes: stats.Processes, DiskBytes: stats.DiskBytes, DiskFreeBytes: stats.DiskFreeBytes, Reached: stats.Reached()}
	if stats.CPUTime != nil {
		spent := stats.CPUTime.Seconds()
		m.CPUSeconds = &spent
	}
	return m, nil
}
