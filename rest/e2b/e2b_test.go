package e2b

import (
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"aether/engine"
	"aether/rest"
	"aether/sandbox"
)

const anID = "0123456789abcdefghjk"

// TestTokens: a key is made once, nobody else may read it, and tokens are of one sandbox and
// one purpose.
func TestTokens(t *testing.T) {
	dir := t.TempDir()
	key, err := OpenKey(dir)
	if err != nil || len(key) != keyBytes {
		t.Fatal(key, err)
	}
	again, err := OpenKey(dir)
	if err != nil || !slices.Equal(key, again) {
		t.Fatal("another key", err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("%v, %v", left, err)
	}
	seen := map[string]bool{}
	for _, id := range []string{"a", "b"} {
		for _, token := range []string{tokens(key).access(id), tokens(key).traffic(id)} {
			if seen[token] || len(token) != 64 {
				t.Errorf("%s is no token of its own", token)
			}
			seen[token] = true
		}
	}
	if err := os.Chmod(filepath.Join(dir, keyFile), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenKey(dir); sandbox.ClassOf(err) != sandbox.Denied {
		t.Errorf("a key that all may read: %v", err)
	}
}

// TestPlaces: a request names a port of a sandbox by its headers or its host.
func TestPlaces(t *testing.T) {
	for _, c := range []struct {
		domain, host, id, port string
		want                   place
		ok                     bool
	}{
		{"", "8000-" + anID + ".localhost:7070", "", "", place{anID, 8000}, true},
		{"", "8000-" + anID + "-00000000.e2b.app", "", "", place{anID, 8000}, true},
		{"", "8000-" + strings.ToUpper(anID) + ".LOCALHOST", "", "", place{anID, 8000}, true},
		{"aether.test", "8000-" + anID + ".aether.test", "", "", place{anID, 8000}, true},
		{"aether.test", "8000-" + anID + ".other.test", "", "", place{}, false},
		{"aether.test", "api.aether.test", "", "", place{}, false},
		{"", "127.0.0.1:7070", "", "", place{}, false},
		{"", "8000-" + anID, "", "", place{}, false},
		{"", "99999-" + anID + ".x", "", "", place{anID, 0}, true},
		{"", "8000-" + anID + ".x", "other", "80", place{"other", 80}, true},
		{"", "127.0.0.1", anID, "49983", place{anID, 49983}, true},
		{"", "127.0.0.1", anID, "", place{anID, 0}, true},
		{"", "127.0.0.1", anID, "-1", place{anID, 0}, true},
		{"", "127.0.0.1", anID, "65536", place{anID, 0}, true},
	} {
		r := &http.Request{Host: c.host, Header: http.Header{}, URL: &url.URL{}}
		if c.id != "" {
			r.Header.Set(idHeader, c.id)
			r.Header.Set(portHeader, c.port)
		}
		if got, ok := (&Dialect{domain: c.domain}).placeOf(r); got != c.want || ok != c.ok {
			t.Errorf("%+v: %+v, %v", c, got, ok)
		}
	}
}

// FuzzPlace: whatever a request says, it is for a port that exists or none, and a path of
// the guest service that is not the daemon's own.
func FuzzPlace(f *testing.F) {
	f.Add("8000-"+anID+".x", "", "", "/files")
	f.Add("", anID, "49983", "/process.Process/../aether/ports/1")
	f.Fuzz(func(t *testing.T, host, id, port, path string) {
		r := &http.Request{Host: host, Header: http.Header{idHeader: {id}, portHeader: {port}}, URL: &url.URL{Path: path}}
		at, _ := new(Dialect).placeOf(r)
		if at.port < 0 || at.port > 65535 {
			t.Errorf("port %d", at.port)
		}
		if isGuestPath(path) && (strings.Contains(path, "/../") || path == "/init") {
			t.Errorf("%q is the daemon's own", path)
		}
		refuseDirect(httptest.NewRecorder(), r, at, http.StatusNotFound, rest.Failure{Class: "not_found", Reason: id})
	})
}

// TestPolicies: what E2B says of a network becomes a policy, and reads back as itself.
func TestPolicies(t *testing.T) {
	yes, no := true, false
	for name, c := range map[string]struct {
		config      networkConfig
		internet    *bool
		allow, deny []string
		class       sandbox.Class
		refused     bool
	}{
		"nothing":                {allow: []string{"public"}},
		"internet":               {internet: &yes, allow: []string{"public"}},
		"none":                   {internet: &no},
		"a list":                 {config: networkConfig{AllowOut: []string{"a.example"}, DenyOut: []string{everywhere}}, allow: []string{"a.example"}},
		"a list without":         {config: networkConfig{AllowOut: []string{"a.example"}}, internet: &no, allow: []string{"a.example"}},
		"but one":                {config: networkConfig{DenyOut: []string{"8.8.8.8"}}, allow: []string{"public"}, deny: []string{"8.8.8.8"}},
		"allowed after all":      {config: networkConfig{AllowOut: []string{everywhere}}, internet: &no, allow: []string{"public"}},
		"allowed and denied":     {config: networkConfig{AllowOut: []string{"8.8.8.8"}, DenyOut: []string{"8.0.0.0/8"}}, class: sandbox.Unsupported, refused: true},
		"a password for a proxy": {config: networkConfig{EgressProxy: &egressProxy{"p.example:1", "u", "p"}}, class: sandbox.Unsupported, refused: true},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := c.config.policy(c.internet)
			if c.refused {
				if sandbox.ClassOf(err) != c.class {
					t.Error(err)
				}
				return
			}
			if err != nil || !slices.Equal(got.Allow, c.allow) || !slices.Equal(got.Deny, c.deny) || got.Mode != sandbox.EgressNetwork {
				t.Fatalf("%+v, %v", got, err)
			}
			again, err := networkOf(engine.Sandbox{Spec: sandbox.Spec{Network: got}}).policy(nil)
			if err != nil || !slices.Equal(again.Allow, got.Allow) || !slices.Equal(again.Deny, got.Deny) {
				t.Errorf("it reads back as %+v, %v", again, err)
			}
		})
	}
}

// FuzzQuery: a filter is refused as invalid or is within the bounds.
func FuzzQuery(f *testing.F) {
	f.Add("limit=7&state=running,paused&order=asc&metadata=a%3Db")
	f.Add("metadata=%25zz&startedAfter=2026-01-01T00:00:00Z&template=base")
	f.Fuzz(func(t *testing.T, raw string) {
		q, err := parseQuery(raw)
		if err != nil && sandbox.ClassOf(err) != sandbox.Invalid {
			t.Fatal(err)
		}
		if err == nil && (q.Limit < 1 || q.Limit > maxPage || len(q.States) == 0) {
			t.Errorf("%+v", q)
		}
	})
}

// TestSchemeOfLinks: a link is as its client reaches the daemon, whatever headers say.
func TestSchemeOfLinks(t *testing.T) {
	for _, c := range []struct {
		domain, host string
		tls          bool
		want         string
	}{
		{"", "127.0.0.1:7070", false, "http"},
		{"", "api.example.com", true, "https"},
		{"example.com", "127.0.0.1:7070", false, "http"},
		{"example.com", "api.example.com", false, "https"},
		{"example.com", "API.Example.com:8443", false, "https"},
		{"example.com", "api.example.org", false, "http"},
		{"example.com", "example.com.evil.test", false, "http"},
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Host = c.host
		r.Header.Set("X-Forwarded-Proto", "https")
		if c.tls {
			r.TLS = &tls.ConnectionState{}
		}
		if got := (&Dialect{domain: c.domain}).schemeOf(r); got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
}
