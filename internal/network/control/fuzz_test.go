package control

import (
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"os"
	"reflect"
	"strings"
	"testing"

	"aether/internal/host/launch"
	"aether/network/policy"
	"aether/sandbox"
)

func compiled(t testing.TB) policy.Policy {
	t.Helper()
	p, err := policy.Compile(t.Context(), sandbox.Network{Allow: []string{"a.example", "10.0.0.0/8:1-2"}, Proxy: "http://1.2.3.4:1",
		HTTP: []sandbox.HTTPRule{{Host: "*.a.example", Paths: []string{"/v1/*"}, Headers: map[string]string{"X-Key": "${KEY}"}}}}, nil,
		func(string) (string, []string, error) { return "s3cr3t-value", nil, nil })
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// FuzzPolicy gives any bytes as a request: what is read of it can be asked anything.
func FuzzPolicy(f *testing.F) {
	text, err := json.Marshal(sentRequest{Request: Request{Op: Set, Policy: compiled(f)}, Secrets: map[string]string{"KEY": "x"}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add([]byte(`{"policy":{"http":[{"host":{"name":"a"},"headers":{"a":"${"}}],"allow":[{"prefix":"::/0"}]}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		var s sentRequest
		if json.Unmarshal(text, &s) != nil {
			return
		}
		p := s.request().Policy
		_ = p.Request("x.a.example", 443, "GET", "/v1/x")
		v := p.Name("x.a.example", 443, false)
		for _, addr := range []string{"10.0.0.1", "::1", "8.8.8.8"} {
			_ = p.Address(netip.MustParseAddr(addr), 443, false, v)
		}
	})
}

// TestSecretsAreSent between the two ends, and printed nowhere.
func TestSecretsAreSent(t *testing.T) {
	ours, theirs, err := launch.SocketPair()
	if err != nil {
		t.Fatal(err)
	}
	defer ours.Close()
	other, err := net.FileConn(theirs)
	if err != nil {
		t.Fatal(err)
	}
	theirs.Close()
	defer other.Close()
	r := Request{Op: Attach, ID: 3, Policy: compiled(t)}
	go func() { _ = New(ours).WriteRequest(r, os.Stderr) }()
	got, file, err := New(other.(*net.UnixConn)).ReadRequest()
	if err != nil || file == nil {
		t.Fatal(err, file)
	}
	file.Close()
	if got.Policy.Secrets["KEY"].Reveal() != "s3cr3t-value" {
		t.Error("the secret did not come")
	}
	printed := fmt.Sprintf("%+v %#v", got, got)
	if text, err := json.Marshal(got); err != nil || strings.Contains(printed+string(text), "s3cr3t") {
		t.Errorf("printed: %s %s", printed, text)
	}
	got.Policy.Secrets, r.Policy.Secrets = nil, nil
	if !reflect.DeepEqual(got, r) {
		t.Errorf("%+v, want %+v", got, r)
	}
}
