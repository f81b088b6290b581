package policy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"testing"

	"aether/sandbox"
)

const marker = "s3cr3t-value"

func shelf(name string) (string, []string, error) {
	switch name {
	case "ANY":
		return marker, nil, nil
	case "ONE":
		return marker, []string{"a.example", "*.b.example"}, nil
	case "LINES":
		return marker + "\r\nX: y", nil, nil
	}
	return "", nil, &sandbox.Error{Class: sandbox.NotFound, Reason: "no such secret"}
}

// TestSecretsOfRules: a rule has the secrets that exist and are for its host.
func TestSecretsOfRules(t *testing.T) {
	const fine = sandbox.Class(-1)
	for _, c := range []struct {
		host, value string
		want        sandbox.Class
	}{
		{"a.example", "Bearer ${ANY}", fine}, {"*.x.example:8443", "${e2b.secrets.ANY}${ANY}", fine}, {"a.example", "${ONE}", fine}, {"a.example:443", "${ONE}", fine},
		{"x.b.example", "${ONE}", fine}, {"*.b.example", "${ONE}", fine}, {"*.c.b.example", "${ONE}", fine},
		{"b.example", "${ONE}", sandbox.Denied}, {"c.example", "${ONE}", sandbox.Denied}, {"*.a.example", "${ONE}", sandbox.Denied}, {"*.example", "${ONE}", sandbox.Denied},
		{"a.example", "${NONE}", sandbox.Invalid}, {"a.example", "${LINES}", sandbox.Invalid},
	} {
		n := sandbox.Network{Mode: sandbox.EgressNetwork, HTTP: []sandbox.HTTPRule{{Host: "z.example"}, {Host: c.host, Headers: map[string]string{"X-Key": c.value}}}}
		if err := (sandbox.Spec{Network: n}).Validate(); err != nil {
			t.Fatal(err)
		}
		_, err := Compile(t.Context(), n, nil, shelf)
		var e *sandbox.Error
		switch {
		case c.want == fine && err != nil:
			t.Errorf("%+v: %v", c, err)
		case c.want != fine && (!errors.As(err, &e) || e.Class != c.want || e.Field != "network.http[1]" || strings.Contains(err.Error(), marker)):
			t.Errorf("%+v: %v", c, err)
		}
	}
	_, err := Compile(t.Context(), sandbox.Network{Proxy: "socks5://${NONE}@1.2.3.4:1"}, nil, nil)
	var e *sandbox.Error
	if !errors.As(err, &e) || e.Class != sandbox.Invalid || e.Field != "network.proxy" || !strings.Contains(err.Error(), `"NONE"`) {
		t.Errorf("%v", err)
	}
}

// TestSecretsArePrinted as [secret], whoever prints a policy.
func TestSecretsArePrinted(t *testing.T) {
	p, err := Compile(t.Context(), sandbox.Network{HTTP: []sandbox.HTTPRule{{Host: "a.example", Headers: map[string]string{"X-Key": "${ANY}"}}}}, nil, shelf)
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	direct, err := json.Marshal(p.Secrets)
	if err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "policy", p, "secret", p.Secrets["ANY"])
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "policy", p, "secret", p.Secrets["ANY"])
	for _, text := range []string{string(encoded), string(direct), log.String(), fmt.Sprintf("%v %+v %#v", p, p, p), fmt.Sprintf("%v %#v %q %x %d", p.Secrets, p.Secrets, p.Secrets, p.Secrets["ANY"], p.Secrets["ANY"])} {
		if strings.Contains(text, marker) || strings.Contains(text, fmt.Sprintf("%x", marker)) {
			t.Errorf("printed: %s", text)
		}
	}
	if v := p.Request("a.example", 443, "GET", "/"); v.Headers["X-Key"] != marker || !v.Secret {
		t.Errorf("%+v", v)
	}
}

// TestRequest: rules add up, and allow nothing of other hosts or ports.
func TestRequest(t *testing.T) {
	p, err := Compile(t.Context(), sandbox.Network{HTTP: []sandbox.HTTPRule{
		{Host: "*.a.example", Methods: []string{"GET"}, Headers: map[string]string{"X-A": "1", "X-B": "1"}},
		{Host: "x.a.example", Paths: []string{"/v1/*"}, Headers: map[string]string{"X-B": "2"}},
		{Host: "p.example:8080"},
	}}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		method, path string
		allowed      bool
		headers      map[string]string
	}{
		{"GET", "/", true, map[string]string{"X-A": "1", "X-B": "1"}}, {"GET", "/v1/x", true, map[string]string{"X-A": "1", "X-B": "2"}},
		{"POST", "/v1/x", true, map[string]string{"X-B": "2"}}, {"POST", "/", false, nil}, {"POST", "/v1/../", false, nil},
	} {
		if v := p.Request("x.a.example", 443, c.method, c.path); v.Allowed != c.allowed || !reflect.DeepEqual(v.Headers, c.headers) {
			t.Errorf("%s %s: %+v", c.method, c.path, v)
		}
	}
	for _, c := range []struct {
		name string
		port uint16
		want bool
	}{{"x.a.example", 443, true}, {"x.a.example", 80, true}, {"x.a.example", 8443, false}, {"a.example", 443, false}, {"p.example", 8080, true}, {"p.example", 443, false}, {"", 443, false}} {
		if got := p.Ruled(c.name, c.port); got != c.want {
			t.Errorf("%s:%d: %v", c.name, c.port, got)
		}
	}
	if v := p.Name("x.a.example", 443, false); v.Allowed {
		t.Error("a rule about requests allows its host")
	}
}

// TestAuthorization: what reads from a host of a list has the list's credential, what
// writes has not, and where the policy has rules of its own the list adds none.
func TestAuthorization(t *testing.T) {
	lists := func(context.Context, string) ([]Rule, error) {
		at := func(name string) Rule {
			return Rule{Reach: sandbox.Reach{Name: name, First: 443, Last: 443}, Authorization: NewSecret("Basic " + marker)}
		}
		return []Rule{at("a.example"), at("ruled.example"), {Reach: sandbox.Reach{Name: "open.example"}}}, nil
	}
	n := sandbox.Network{Mode: sandbox.EgressNetwork, Allow: []string{"packages"}, HTTP: []sandbox.HTTPRule{{Host: "ruled.example", Paths: []string{"/v1/*"}}}}
	p, err := Compile(t.Context(), n, lists, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, method, path string
		allowed, sent      bool
	}{
		{"a.example", "GET", "/simple/", true, true}, {"a.example", "HEAD", "/", true, true}, {"a.example", "PUT", "/x", true, false},
		{"ruled.example", "GET", "/v1/x", true, false}, {"ruled.example", "GET", "/v2", false, false},
	} {
		v := p.Request(c.name, 443, c.method, c.path)
		if v.Allowed != c.allowed || v.Secret != c.sent || (v.Headers["Authorization"] == "Basic "+marker) != c.sent {
			t.Errorf("%+v: %+v", c, v)
		}
	}
	if p.Ruled("open.example", 443) || p.Ruled("a.example", 8443) {
		t.Error("rules are about hosts without a credential")
	}
	n.Mode, n.HTTP = sandbox.NatNetwork, nil
	if p, err = Compile(t.Context(), n, lists, nil); err != nil || len(p.HTTP) != 0 {
		t.Errorf("nat: %+v, %v", p.HTTP, err)
	}
}
