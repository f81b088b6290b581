package e2b

import (
	"context"
	"net/http"
	"time"

	"aether/engine"
	"aether/rest"
	"aether/sandbox"
)

// sandboxOperations are those of the control plane that are about sandboxes.
func (d *Dialect) sandboxOperations() []rest.Operation {
	return []rest.Operation{
		{Pattern: "POST /sandboxes", Name: "e2b.sandbox.create", Do: d.create},
		{Pattern: "POST /v2/sandboxes", Name: "e2b.sandbox.create", Do: d.create},
		{Pattern: "GET /sandboxes", Name: "e2b.sandbox.list", Do: d.listOld},
		{Pattern: "GET /v2/sandboxes", Name: "e2b.sandbox.list", Do: d.list},
		{Pattern: "GET /sandboxes/{id}", Name: "e2b.sandbox.get", Do: d.get},
		{Pattern: "DELETE /sandboxes/{id}", Name: "e2b.sandbox.kill", Do: d.kill},
		{Pattern: "POST /sandboxes/{id}/connect", Name: "e2b.sandbox.connect", Do: d.connect},
		{Pattern: "POST /v2/sandboxes/{id}/connect", Name: "e2b.sandbox.connect", Do: d.connect},
		{Pattern: "POST /sandboxes/{id}/resume", Name: "e2b.sandbox.resume", Do: d.resume},
		{Pattern: "POST /sandboxes/{id}/pause", Name: "e2b.sandbox.pause", Do: d.pause},
		{Pattern: "POST /sandboxes/{id}/timeout", Name: "e2b.sandbox.timeout", Do: d.setTimeout},
		{Pattern: "POST /sandboxes/{id}/refreshes", Name: "e2b.sandbox.refresh", Do: d.refresh},
		{Pattern: "POST /sandboxes/{id}/fork", Name: "e2b.sandbox.fork", Do: d.fork},
		{Pattern: "POST /sandboxes/{id}/snapshots", Name: "e2b.snapshot.create", Do: d.snapshot},
		{Pattern: "PUT /sandboxes/{id}/network", Name: "e2b.sandbox.network", Do: d.setNetwork},
		{Pattern: "GET /sandboxes/{id}/metrics", Name: "e2b.sandbox.metrics", Do: d.metrics},
		{Pattern: "GET /sandboxes/metrics", Name: "e2b.sandbox.metrics", Do: d.metricsOfMany},
		{Pattern: "GET /sandboxes/{id}/logs", Name: "e2b.sandbox.logs", Do: d.logsOld},
		{Pattern: "GET /v2/sandboxes/{id}/logs", Name: "e2b.sandbox.logs", Do: d.logs},
		{Pattern: "GET /snapshots", Name: "e2b.snapshot.list", Do: d.listSnapshots},
	}
}

func (d *Dialect) get(v *rest.Visit) error {
	s, err := d.of(v)
	if err != nil {
		return err
	}
	return v.Answer(http.StatusOK, d.detailed(v.Request, s))
}

func (d *Dialect) kill(v *rest.Visit) error {
	s, err := d.of(v)
	if err != nil {
		return err
	}
	if err := d.engine.Destroy(v.Context(), v.Who, s.ID); err != nil {
		return err
	}
	d.books.forget(s.ID)
	return v.Answer(http.StatusNoContent, nil)
}

// connectRequest is how a sandbox is to go on.
type connectRequest struct {
	Timeout   *int64 `json:"timeout"`
	Memory    *bool  `json:"memory"`
	AutoPause *bool  `json:"autoPause"`
}

// given is what of a paused sandbox goes on.
func (r connectRequest) given() sandbox.Fidelity {
	if r.Memory != nil && !*r.Memory {
		return sandbox.Filesystem
	}
	return ""
}

// asked reads a request about a sandbox, with its time to live.
func (d *Dialect) asked(v *rest.Visit, req any, timeout **int64) (s engine.Sandbox, lives time.Duration, err error) {
	if err := v.Body(req); err != nil {
		return s, 0, err
	}
	if s, err = d.of(v); err != nil {
		return s, 0, err
	}
	lives, err = seconds(*timeout)
	return s, lives, err
}

// connect resumes a sandbox that is paused, and has one that runs live longer, never
// shorter.
func (d *Dialect) connect(v *rest.Visit) error {
	var req connectRequest
	s, timeout, err := d.asked(v, &req, &req.Timeout)
	if err != nil {
		return err
	}
	status := http.StatusOK
	if s.State == engine.Paused {
		status = http.StatusCreated
		s, err = d.wake(v, s, req, timeout)
	} else {
		s, err = d.extend(v.Context(), v.Who, s, timeout)
	}
	if err != nil {
		return err
	}
	return v.Answer(status, d.made(v.Request, s))
}

// resume is connect of older clients, which is for paused sandboxes alone.
func (d *Dialect) resume(v *rest.Visit) error {
	var req connectRequest
	s, timeout, err := d.asked(v, &req, &req.Timeout)
	if err != nil {
		return err
	}
	if s.State != engine.Paused {
		return &sandbox.Error{Class: sandbox.Conflict, Reason: "the sandbox is running already"}
	}
	if s, err = d.wake(v, s, req, timeout); err != nil {
		return err
	}
	return v.Answer(http.StatusCreated, d.made(v.Request, s))
}

// wake resumes a sandbox, whose time begins when it runs.
func (d *Dialect) wake(v *rest.Visit, s engine.Sandbox, req connectRequest, timeout time.Duration) (engine.Sandbox, error) {
	leave, err := v.Creation()
	if err != nil {
		return s, err
	}
	defer leave()
	then := s.Then
	if req.AutoPause != nil {
		then = newSandbox{AutoPause: *req.AutoPause}.then()
	}
	if _, err := d.engine.SetTimeout(v.Context(), v.Who, s.ID, timeout, then); err != nil {
		return s, err
	}
	now, err := d.engine.Resume(v.Context(), v.Who, s.ID, req.given())
	if err == nil {
		return now, nil
	}
	if other, failed := d.living(v.Context(), v.Who, s.ID); failed == nil && other.State == engine.Running {
		return other, nil // somebody else was faster
	}
	return s, notConflict(err)
}

// notConflict is an error that clients do not take for what they know as a conflict.
func notConflict(err error) error {
	if sandbox.ClassOf(err) == sandbox.Conflict {
		return rest.Refusal(http.StatusNotImplemented, err)
	}
	return err
}

// extend has a sandbox live for so long from now on, if that is longer than it would.
func (d *Dialect) extend(ctx context.Context, who engine.Caller, s engine.Sandbox, timeout time.Duration) (engine.Sandbox, error) {
	if s.Expires.IsZero() || time.Now().Add(timeout).Before(s.Expires) {
		return s, nil
	}
	return d.engine.SetTimeout(ctx, who, s.ID, timeout, "")
}

// pause keeps a sandbox. A client takes a conflict for one that is paused already, so that
// nothing else may be told so.
func (d *Dialect) pause(v *rest.Visit) error {
	var req connectRequest
	if err := v.Body(&req); err != nil {
		return err
	}
	s, err := d.of(v)
	if err != nil {
		return err
	}
	if s.State == engine.Paused {
		return &sandbox.Error{Class: sandbox.Conflict, Reason: "the sandbox is paused already"}
	}
	if _, err = d.engine.Pause(v.Context(), v.Who, s.ID, req.given()); err != nil {
		return notConflict(err)
	}
	return v.Answer(http.StatusNoContent, nil)
}

// atOnce is how soon a sandbox ends whose time is set to nothing.
const atOnce = time.Millisecond

func (d *Dialect) setTimeout(v *rest.Visit) error {
	var req struct {
		Timeout *int64 `json:"timeout"`
	}
	if err := v.Body(&req); err != nil {
		return err
	}
	s, err := d.of(v)
	if err != nil {
		return err
	}
	after := atOnce
	if req.Timeout == nil || *req.Timeout != 0 {
		if after, err = seconds(req.Timeout); err != nil {
			return err
		}
	}
	if _, err := d.engine.SetTimeout(v.Context(), v.Who, s.ID, after, ""); err != nil {
		return err
	}
	return v.Answer(http.StatusNoContent, nil)
}

// refreshTime is by how long a refresh is that states none, in seconds.
const refreshTime = 15

func (d *Dialect) refresh(v *rest.Visit) error {
	req := struct {
		Duration int64 `json:"duration"`
	}{refreshTime}
	if err := v.Body(&req); err != nil {
		return err
	}
	s, err := d.of(v)
	if err != nil {
		return err
	}
	after, err := seconds(&req.Duration)
	if err != nil {
		return err
	}
	if _, err := d.extend(v.Context(), v.Who, s, after); err != nil {
		return err
	}
	return v.Answer(http.StatusNoContent, nil)
}

func (d *Dialect) setNetwork(v *rest.Visit) error {
	var req struct {
		networkConfig
		AllowInternetAccess *bool `json:"allow_internet_access"`
	}
	if err := v.Body(&req); err != nil {
		return err
	}
	s, err := d.of(v)
	if err != nil {
		return err
	}
	policy, err := req.policy(req.AllowInternetAccess)
	if err != nil {
		return err
	}
	if _, err := d.engine.SetNetwork(v.Context(), v.Who, s.ID, policy); err != nil {
		return err
	}
	return v.Answer(http.StatusNoContent, nil)
}
