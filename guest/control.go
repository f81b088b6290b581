//go:build linux

package guest

import (
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"path"
	"runtime"
	"slices"
	"sync"
	"time"

	"aether/sandbox"
)

// open are the paths that authorize lets through.
var open = []string{"/health", "/files", "/init"}

// authorize checks the access token. Files check it themselves, since a signed
// URL will do, and init does, since its token may be in the body.
func (s *Service) authorize(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !slices.Contains(open, r.URL.Path) {
			if err := s.checkToken(r.Header); err != nil {
				httpError(w, err)
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

func (s *Service) checkToken(header http.Header) error {
	token := s.current().token
	if token != "" && !sameText(header.Get(tokenHeader), token) {
		return unauthenticated(tokenHeader, "the access token is missing or wrong")
	}
	return nil
}

func (s *Service) health(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusNoContent)
}

func (s *Service) envs(w http.ResponseWriter, r *http.Request) {
	env, err := envOf(r.Header, s.current().env)
	if err != nil {
		httpError(w, err)
		return
	}
	if env == nil {
		env = map[string]string{}
	}
	writeJSON(w, http.StatusOK, env)
}

// initRequest changes the settings. A field that is absent changes nothing.
type initRequest struct {
	EnvVars        map[string]string `json:"envVars"`
	AccessToken    string            `json:"accessToken"`
	Timestamp      *time.Time        `json:"timestamp"`
	DefaultUser    string            `json:"defaultUser"`
	DefaultWorkdir string            `json:"defaultWorkdir"`
}

func (s *Service) init(w http.ResponseWriter, r *http.Request) {
	var req initRequest
	err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxMessage)).Decode(&req)
	if err != nil && !errors.Is(err, io.EOF) {
		httpError(w, &sandbox.Error{Class: sandbox.Invalid, Field: "body", Reason: "it is not what init takes", Err: err})
		return
	}
	if err := req.validate(); err != nil {
		httpError(w, err)
		return
	}
	if err := s.apply(&req, r.Header.Get(tokenHeader)); err != nil {
		httpError(w, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func (req *initRequest) validate() error {
	for name, value := range req.EnvVars {
		if err := sandbox.ValidEnv(name, value); err != nil {
			return err
		}
	}
	if req.DefaultWorkdir != "" && !path.IsAbs(req.DefaultWorkdir) {
		return sandbox.Invalidf("defaultWorkdir", "%q is not an absolute path", clip(req.DefaultWorkdir))
	}
	return nil
}

// apply takes a change unless a newer one was taken before.
func (s *Service) apply(req *initRequest, shown string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := &s.settings
	if now.token != "" && !sameText(shown, now.token) && !sameText(req.AccessToken, now.token) {
		return unauthenticated(tokenHeader, "the access token is missing or wrong")
	}
	if req.Timestamp != nil {
		if req.Timestamp.Before(s.updated) {
			return nil
		}
		s.updated = *req.Timestamp
	}
	if req.EnvVars != nil {
		now.env = maps.Clone(req.EnvVars)
	}
	for _, set := range []struct {
		to   *string
		from string
	}{{&now.token, req.AccessToken}, {&now.user, req.DefaultUser}, {&now.workDir, req.DefaultWorkdir}} {
		if set.from != "" {
			*set.to = set.from
		}
	}
	return nil
}

// metricsBody is what the sandbox uses. What is not known is absent.
type metricsBody struct {
	Time      int64    `json:"ts"`
	CPUs      int      `json:"cpu_count"`
	CPUUsed   *float64 `json:"cpu_used_pct,omitempty"`
	MemTotal  *int64   `json:"mem_total,omitempty"`
	MemUsed   *int64   `json:"mem_used,omitempty"`
	DiskUsed  *int64   `json:"disk_used,omitempty"`
	DiskTotal *int64   `json:"disk_total,omitempty"`
}

func (s *Service) metrics(w http.ResponseWriter, r *http.Request) {
	stats, err := s.backend.Stats(r.Context())
	if err != nil {
		httpError(w, err)
		return
	}
	body := metricsBody{Time: time.Now().Unix(), CPUs: runtime.NumCPU(), MemUsed: stats.MemoryBytes, DiskUsed: stats.DiskBytes}
	if s.limits.CPUs > 0 {
		body.CPUs = max(1, int(s.limits.CPUs+0.999))
	}
	if stats.CPUTime != nil {
		body.CPUUsed = s.usage.percent(*stats.CPUTime, time.Now())
	}
	body.MemTotal = known(s.limits.MemoryBytes)
	body.DiskTotal = known(s.limits.DiskBytes)
	if err := s.diskUsage(&body); err != nil {
		httpError(w, err)
		return
	}
	writeJSON(w, http.StatusOK, body)
}

// diskUsage asks the file system for what the back end does not know.
func (s *Service) diskUsage(body *metricsBody) error {
	if body.DiskUsed != nil && body.DiskTotal != nil {
		return nil
	}
	root, err := s.openRoot()
	if err != nil {
		return err
	}
	defer root.Close()
	total, free, err := root.Usage()
	if err != nil {
		return err
	}
	if body.DiskTotal == nil {
		body.DiskTotal = known(int64(total))
	}
	if body.DiskUsed == nil {
		body.DiskUsed = known(int64(total - free))
	}
	return nil
}

func known(n int64) *int64 {
	if n == 0 {
		return nil
	}
	return &n
}

// usage turns a total of CPU time into a share, from one call to the next.
type usage struct {
	mu   sync.Mutex
	cpu  time.Duration
	when time.Time
}

func (u *usage) percent(cpu time.Duration, now time.Time) *float64 {
	u.mu.Lock()
	defer u.mu.Unlock()
	before, since := u.cpu, now.Sub(u.when)
	first := u.when.IsZero()
	u.cpu, u.when = cpu, now
	if first || since <= 0 {
		return nil
	}
	share := float64(cpu-before) / float64(since) * 100
	return &share
}
