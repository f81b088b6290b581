package list

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"testing"
)

// TestCredentialsAreNotPrinted tries every way in which a program lets slip what it holds.
func TestCredentialsAreNotPrinted(t *testing.T) {
	const secret = "hunter2"
	type inside struct {
		c  Credential // not exported: its methods are not called
		at *Credential
	}
	for _, c := range []*Credential{basicCredential("hunter2", secret), tokenCredential("Bearer", secret), tokenCredential("", secret)} {
		var printed bytes.Buffer
		for _, v := range []any{c, *c, Entry{Credential: c}, []Entry{{Credential: c}}, inside{*c, c}, &inside{*c, c}, site{credential: c}} {
			for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
				fmt.Fprintf(&printed, verb+"\n", v)
			}
			slog.New(slog.NewTextHandler(&printed, nil)).Info("x", "v", v)
			slog.New(slog.NewJSONHandler(&printed, nil)).Info("x", "v", v)
		}
		text, err := json.Marshal(Entry{Credential: c})
		if err != nil {
			t.Fatal(err)
		}
		printed.Write(text)
		for _, form := range []string{secret, fmt.Sprintf("%x", secret), "aHVudGVyMg"} {
			if strings.Contains(strings.ToLower(printed.String()), strings.ToLower(form)) {
				t.Errorf("it is printed: %s", printed.String())
			}
		}
		var back Entry
		if err := json.Unmarshal(text, &back); err != nil || back.Credential == nil || back.Credential.Known() || back.Credential.Header() != "" {
			t.Errorf("%s is read as %v, %v", text, back.Credential, err)
		}
	}
}

func TestCredentialHeaders(t *testing.T) {
	u := &url.URL{Scheme: "https", Host: "a.example", User: url.UserPassword("me", "p:w")}
	c := takeCredential(u)
	if user, password, ok := c.Basic(); !ok || user != "me" || password != "p:w" || c.Header() != "Basic bWU6cDp3" || u.User != nil {
		t.Errorf("%q %q %v %q %v", user, password, ok, c.Header(), u)
	}
	if c := tokenCredential("Bearer", "abc"); c.Header() != "Bearer abc" {
		t.Error(c.Header())
	}
	if c := takeCredential(&url.URL{User: url.User("")}); c != nil {
		t.Error("nothing is a credential")
	}
	var none *Credential
	if _, _, ok := none.Basic(); ok || none.Known() || none.Header() != "" {
		t.Error("no credential is one")
	}
}

func TestNetrc(t *testing.T) {
	logins := parseNetrc([]byte(`# machine commented.example login no password no
machine A.example login me password pw
machine b.example
	login you
	account x
	password word
macdef init
machine macro.example login no password no

machine https://apt.example:8443/debian login apt password deb
default login any password body
`))
	for at, want := range map[string]string{
		"https://a.example/x": "me:pw", "http://b.example:81/": "you:word", "https://macro.example/": "any:body", "https://commented.example": "any:body",
		"https://apt.example:8443/debian/dists": "apt:deb", "http://apt.example:8443/debian/": "any:body", "https://apt.example:8443/other": "any:body",
	} {
		u, err := url.Parse(at)
		if err != nil {
			t.Fatal(err)
		}
		user, password, _ := logins.find(u).Basic()
		if got := user + ":" + password; got != want {
			t.Errorf("%s: %s, want %s", at, got, want)
		}
	}
	if parseNetrc([]byte("login a password b")).find(&url.URL{Host: "x"}) != nil {
		t.Error("a login without a machine is used")
	}
}

func FuzzNetrc(f *testing.F) {
	f.Add([]byte("machine a login b password c\ndefault login d"))
	f.Add([]byte("macdef x\n\nmachine http://a/b password"))
	f.Fuzz(func(t *testing.T, text []byte) {
		parseNetrc(text).find(&url.URL{Scheme: "https", Host: "a.example", Path: "/b"})
	})
}
