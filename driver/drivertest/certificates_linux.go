package drivertest

import (
	"context"
	"fmt"
	"net/http"
	"path"
	"strings"
	"testing"

	"aether/guest"
	pb "aether/guest/wire/filesystem"
	"aether/network"
	"aether/network/networktest"
	"aether/sandbox"
)

const (
	apiName  = "api.example.com"
	apiToken = "s3cr3t-value"
	// guestToken is what the service inside is told to ask for.
	guestToken = "t0ken"
	rightKey   = "200 OK: with the right key"
)

// api serves a host that says which key came, and gives the network of a sandbox that sends
// it to some names.
func (s *suite) api(t *testing.T) func(names ...string) sandbox.Network {
	t.Helper()
	_, proxy := networktest.Host(t, apiName, func(w http.ResponseWriter, r *http.Request) {
		verdict := "wrong"
		if r.Header.Get("X-Api-Key") == apiToken {
			verdict = "right"
		}
		fmt.Fprintf(w, "with the %s key", verdict)
	})
	return func(names ...string) sandbox.Network {
		n := sandbox.Network{Mode: s.mode, Allow: names, Proxy: proxy}
		for _, name := range names {
			n.HTTP = append(n.HTTP, sandbox.HTTPRule{Host: name, Headers: map[string]string{"x-api-key": "${TOKEN}"}})
		}
		return n
	}
}

// knowing gives the secret of the rules.
func knowing(ctx context.Context) context.Context {
	return sandbox.WithSecrets(ctx, func(name string) (string, []string, error) {
		if name != "TOKEN" {
			return "", nil, &sandbox.Error{Class: sandbox.NotFound}
		}
		return apiToken, nil, nil
	})
}

// believe: where TLS ends in the gateway, programs believe that without being told, and a
// key that is nowhere inside goes with their requests. So in what goes on from a sandbox, and
// when a rule has another host, also if the service inside asks for a token by then.
func (s *suite) believe(t *testing.T) {
	ruled := s.api(t)
	instance, err := s.driver.Create(knowing(s.patient(t)), sandbox.Spec{Image: s.Image, Network: ruled(apiName)})
	if sandbox.ClassOf(err) == sandbox.Unavailable {
		t.Skipf("the driver refuses it: %v", err)
	} else if err != nil {
		t.Fatal(err)
	}
	b := s.wrap(t, instance)
	s.equip(t, b)
	b.wantProbe(t, rightKey, "https", apiName, "/")
	if said := b.sh(t, "env; cat \"$SSL_CERT_FILE\""); strings.Contains(said, apiToken) {
		t.Error("the key is inside")
	}
	if err := guest.Post(s.patient(t), b.Dial, "/init", strings.NewReader(`{"accessToken":"`+guestToken+`"}`)); err != nil {
		t.Fatal(err)
	}
	b = b.showing(t, guestToken)
	s.believeAnother(t, b, ruled)
	s.believeAgain(t, b, ruled)
}

// showing is the same sandbox for who shows a token.
func (b *box) showing(t *testing.T, token string) *box {
	client := guest.NewClient(b.Dial, guest.ClientOptions{AccessToken: token})
	t.Cleanup(client.Close)
	return &box{Instance: b.Instance, Client: client, config: b.config}
}

// believeAnother: a certificate for a new host comes while the sandbox lives.
func (s *suite) believeAnother(t *testing.T, b *box, ruled func(...string) sandbox.Network) {
	t.Helper()
	ctx, cancel := context.WithCancel(s.patient(t))
	ready, changed, ended := make(chan struct{}), make(chan struct{}, 64), make(chan error, 1)
	go func() {
		ended <- b.Watch(ctx, path.Dir(network.TrustFile), false, func() { close(ready) }, func(e *pb.FilesystemEvent) {
			if e.GetName() == path.Base(network.TrustFile) {
				changed <- struct{}{}
			}
		})
	}()
	defer func() { cancel(); <-ended }()
	select {
	case <-ready:
	case err := <-ended:
		ended <- err
		t.Fatal(err)
	}
	const other = "other." + apiName
	if err := b.Instance.(sandbox.NetworkSetter).SetNetwork(knowing(ctx), ruled(apiName, other)); err != nil {
		t.Fatal(err)
	}
	select {
	case <-changed:
	case <-ctx.Done():
		t.Fatalf("there is no other certificate: %v", context.Cause(ctx))
	}
	b.wantProbe(t, rightKey, "https", other, "/")
}

// believeAgain: what is restored has an authority that its programs believe.
func (s *suite) believeAgain(t *testing.T, b *box, ruled func(...string) sandbox.Network) {
	t.Helper()
	snapshotter, ok := b.Instance.(sandbox.Snapshotter)
	if !ok {
		return
	}
	dir, most := t.TempDir(), snapshotter.SnapshotFidelity()
	if err := snapshotter.Snapshot(s.patient(t), dir, most); err != nil {
		t.Fatal(err)
	}
	gives := []sandbox.Fidelity{sandbox.Filesystem}
	if most != sandbox.Filesystem {
		gives = append(gives, most)
	}
	for _, give := range gives {
		instance, err := s.driver.(sandbox.Restorer).Restore(knowing(s.patient(t)), dir, give, sandbox.Spec{Network: ruled(apiName)})
		if err != nil {
			t.Fatalf("%s: %v", give, err)
		}
		s.wrap(t, instance).showing(t, guestToken).wantProbe(t, rightKey, "https", apiName, "/")
	}
}

// tellDecisions: what was decided is known of a sandbox with a policy, and of no other.
func (s *suite) tellDecisions(t *testing.T) {
	b := s.networked(t)
	b.wantProbe(t, "no such name", "name", "example.org.")
	list, _, err := b.Instance.(sandbox.NetworkLog).NetworkDecisions(s.patient(t))
	if err != nil || len(list) != 1 || list[0].Name != "example.org" || list[0].Verdict != sandbox.VerdictDenied {
		t.Errorf("%+v, %v", list, err)
	}
	_, _, err = s.make(t, sandbox.Spec{}).Instance.(sandbox.NetworkLog).NetworkDecisions(s.patient(t))
	wantClass(t, err, sandbox.Unsupported)
}
