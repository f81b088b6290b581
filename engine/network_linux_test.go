package engine_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"aether/driver/cell"
	"aether/engine"
	"aether/network"
	"aether/network/networktest"
	"aether/sandbox"
)

// builtNetwork builds aether-net for all tests that need it.
var builtNetwork = sync.OnceValue(func() error { return networktest.Build(scratch) })

const apiName = "api.example.com"

// networkHouse is a house whose cells have networks. In it a host says which key came to
// it; the policy reaches that with alice's secret.
func networkHouse(t *testing.T) (*house, sandbox.Network) {
	t.Helper()
	if err := builtNetwork(); err != nil {
		t.Fatal(err)
	}
	roots, proxy := networktest.Host(t, apiName, func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.Header.Get("X-Key")) })
	h := newHouse(t, sandbox.Checkpoint)
	service := network.New(network.Options{Roots: roots})
	t.Cleanup(func() {
		if err := service.Close(); err != nil {
			t.Error(err)
		}
	})
	h.network = service
	return h, sandbox.Network{Mode: sandbox.EgressNetwork, Allow: []string{apiName + ":443"}, Proxy: proxy,
		HTTP: []sandbox.HTTPRule{{Host: apiName, Headers: map[string]string{"X-Key": "${KEY}"}}}}
}

const askHost = "curl -sS --max-time 120 https://" + apiName + "/"

// TestSecretsOfSandboxes: a policy sends what its tenant's secret is: not another's, the
// new value once it is replaced, and nothing once it is removed; also in what is forked,
// paused and resumed.
func TestSecretsOfSandboxes(t *testing.T) {
	h, n := networkHouse(t)
	e := h.open()
	req := engine.CreateRequest{Spec: sandbox.Spec{Network: n}}
	setSecret(t, e, bob, "KEY", hush+"-bob")
	_, err := e.Create(t.Context(), root, req)
	wantClass(t, err, sandbox.Invalid) // it is bob's
	setSecret(t, e, root, "KEY", hush+"-1", "other.example.com")
	_, err = e.Create(t.Context(), root, req)
	wantClass(t, err, sandbox.Denied) // it is for another host
	setSecret(t, e, root, "KEY", hush+"-1", apiName)
	s := create(t, e, root, req)
	want := func(id, key string) {
		t.Helper()
		if got := sh(t, e, root, id, askHost); got != key {
			t.Errorf("the host was told %q, not %q", got, key)
		}
	}
	want(s.ID, hush+"-1")
	gone, leave := context.WithCancel(t.Context())
	leave() // who asks for what follows does not wait for the answer
	if _, err := e.SetSecret(gone, root, engine.SecretRequest{Name: "KEY", Value: secretValue(t, hush+"-2")}); err != nil {
		t.Fatal(err)
	}
	want(s.ID, hush+"-2")
	children, err := e.Fork(t.Context(), root, s.ID, engine.ForkRequest{})
	if err != nil {
		t.Fatal(err)
	}
	want(children[0].ID, hush+"-2")
	if _, err := e.Pause(t.Context(), root, s.ID, ""); err != nil {
		t.Fatal(err)
	}
	setSecret(t, e, root, "KEY", hush+"-3")
	if _, err := e.Resume(t.Context(), root, s.ID, ""); err != nil {
		t.Fatal(err)
	}
	want(s.ID, hush+"-3")
	want(children[0].ID, hush+"-3")
	if err := e.RemoveSecret(gone, root, "", "KEY"); err != nil {
		t.Fatal(err)
	}
	if out, err := tryShell(t.Context(), e, root, s.ID, askHost); err == nil {
		t.Errorf("without a secret the host is told %q", out)
	}
}

// lateCell makes cells and then does something before it gives them.
type lateCell struct {
	*cell.Driver
	before func()
}

func (d *lateCell) Create(ctx context.Context, spec sandbox.Spec) (sandbox.Instance, error) {
	made, err := d.Driver.Create(ctx, spec)
	d.before()
	return made, err
}

// TestSecretsOfSandboxesThatAreMade: one that was given the value of a secret, and was not
// found yet when that was changed, has the new one all the same.
func TestSecretsOfSandboxesThatAreMade(t *testing.T) {
	h, n := networkHouse(t)
	opts := h.options()
	late := &lateCell{Driver: opts.Drivers[0].New().(*cell.Driver)}
	opts.Drivers[0].New = func() sandbox.Driver { return late }
	e, err := engine.Open(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.close(e) })
	setSecret(t, e, root, "KEY", hush+"-1")
	late.before = func() { setSecret(t, e, root, "KEY", hush+"-2") }
	s := create(t, e, root, engine.CreateRequest{Spec: sandbox.Spec{Network: n}})
	if got := sh(t, e, root, s.ID, askHost); got != hush+"-2" {
		t.Errorf("the host was told %q", got)
	}
}

// TestSetNetwork: a policy is changed for what runs and for what is paused, within its mode
// and its tenant's rights, and a fork may have its own; what was decided is told.
func TestSetNetwork(t *testing.T) {
	h, n := networkHouse(t)
	n.HTTP, n.Allow = nil, nil
	e := h.open()
	s := create(t, e, root, engine.CreateRequest{Spec: sandbox.Spec{Network: n}})
	reaches := func(id string, want bool) {
		t.Helper()
		if out, err := tryShell(t.Context(), e, root, id, "curl -sSk --max-time 120 https://"+apiName+"/"); (err == nil) != want {
			t.Errorf("%s reaches the host: %v, %s", id, err == nil, out)
		}
	}
	reaches(s.ID, false)
	wide := n
	wide.Allow = []string{apiName}
	children, err := e.Fork(t.Context(), root, s.ID, engine.ForkRequest{Network: &wide})
	if err != nil {
		t.Fatal(err)
	}
	reaches(children[0].ID, true)
	reaches(s.ID, false)
	now, err := e.SetNetwork(t.Context(), root, s.ID, wide)
	if err != nil || fmt.Sprint(now.Spec.Network.Allow) != "["+apiName+"]" {
		t.Fatalf("%+v, %v", now.Spec.Network, err)
	}
	reaches(s.ID, true)
	if _, err := e.Pause(t.Context(), root, s.ID, ""); err != nil {
		t.Fatal(err)
	}
	if _, err := e.SetNetwork(t.Context(), root, s.ID, n); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Resume(t.Context(), root, s.ID, ""); err != nil {
		t.Fatal(err)
	}
	reaches(s.ID, false)
	list, _, err := e.NetworkLog(t.Context(), root, s.ID)
	if err != nil || len(list) == 0 || list[0].Verdict != sandbox.VerdictDenied || list[0].Name != apiName {
		t.Errorf("%+v, %v", list, err)
	}
	if told := kinds(t, e, s.ID); strings.Count(told, "network_changed") != 2 {
		t.Errorf("the history is %s", told)
	}
}

// TestSetNetworkRefuses what a tenant may not have, what is no policy, and other modes.
func TestSetNetworkRefuses(t *testing.T) {
	h, n := networkHouse(t)
	e := h.open()
	n.Proxy, n.HTTP = "", nil
	mine := create(t, e, alice, engine.CreateRequest{Spec: sandbox.Spec{Network: n}})
	plain := create(t, e, alice, engine.CreateRequest{})
	set := func(who engine.Caller, id string, n sandbox.Network) error {
		_, err := e.SetNetwork(t.Context(), who, id, n)
		return err
	}
	for name, c := range map[string]struct {
		who  engine.Caller
		id   string
		n    sandbox.Network
		want sandbox.Class
	}{
		"private":      {alice, mine.ID, sandbox.Network{Mode: sandbox.EgressNetwork, Allow: []string{"10.0.0.0/8"}}, sandbox.Denied},
		"host":         {alice, mine.ID, sandbox.Network{Mode: sandbox.HostNetwork}, sandbox.Denied},
		"host by root": {root, mine.ID, sandbox.Network{Mode: sandbox.HostNetwork}, sandbox.Unsupported},
		"none":         {alice, mine.ID, sandbox.Network{}, sandbox.Unsupported},
		"no policy":    {alice, mine.ID, sandbox.Network{Mode: sandbox.EgressNetwork, Allow: []string{"a b"}}, sandbox.Invalid},
		"no list":      {root, mine.ID, sandbox.Network{Mode: sandbox.EgressNetwork, Allow: []string{"nolist"}}, sandbox.Invalid},
		"another's":    {bob, mine.ID, n, sandbox.NotFound},
		"no network":   {alice, plain.ID, n, sandbox.Unsupported},
	} {
		t.Run(name, func(t *testing.T) { wantClass(t, set(c.who, c.id, c.n), c.want) })
	}
	if got := get(t, e, alice, mine.ID).Spec.Network.Allow; fmt.Sprint(got) != fmt.Sprint(n.Allow) {
		t.Errorf("refused, and it may reach %v", got)
	}
	_, _, err := e.NetworkLog(t.Context(), bob, mine.ID)
	wantClass(t, err, sandbox.NotFound)
	_, _, err = e.NetworkLog(t.Context(), alice, plain.ID)
	wantClass(t, err, sandbox.Unsupported)
}
