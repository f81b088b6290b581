package list

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"aether/sandbox"
)

func TestNoTools(t *testing.T) {
	b := newBench(t)
	b.set("PATH=" + t.TempDir() + ":relative")
	l, err := Packages(t.Context(), Options{Dir: t.TempDir(), Env: b.env})
	if err != nil || len(l.Entries) != 0 || len(l.Skipped) != len(tools) || l.Incomplete {
		t.Errorf("%+v, %v", l, err)
	}
	for _, tool := range tools {
		if !slices.ContainsFunc(l.Skipped, func(s string) bool { return strings.HasPrefix(s, tool.name+": ") }) {
			t.Errorf("that %s is missing is not said: %q", tool.name, l.Skipped)
		}
	}
}

func TestDirectoryOfOthers(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if _, err := Packages(t.Context(), Options{Dir: dir}); sandbox.ClassOf(err) != sandbox.Denied {
		t.Errorf("got %v", err)
	}
}

// script makes a program that stands for a tool that went mad.
func (b *bench) script(name, text string) {
	b.t.Helper()
	path := b.write("bin/"+name, "#!/bin/sh\n"+text)
	if err := os.Chmod(path, 0o700); err != nil {
		b.t.Fatal(err)
	}
	b.set("PATH=" + filepath.Dir(path) + ":/usr/bin:/bin")
}

func TestMadTools(t *testing.T) {
	for name, text := range map[string]string{
		"endless":  "yes '{\"registry\":'",
		"silent":   "sleep 600 & sleep 600",
		"nonsense": "echo '{]'",
		"failing":  "echo hunter2 >&2; exit 3",
		"deep":     "head -c 2000000 /dev/zero | tr '\\0' '['",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.script("npm", text)
			began := time.Now()
			l, err := collect(t.Context(), Options{Dir: t.TempDir(), Env: b.env, Timeout: 2 * time.Second}, tools[1:2])
			if err != nil || len(l.Entries) != 0 || !l.Incomplete || len(l.Notes) != 1 || strings.Contains(l.Notes[0], "hunter2") {
				t.Errorf("%+v, %v", l, err)
			}
			if took := time.Since(began); took > patience {
				t.Errorf("it took %v", took)
			}
		})
	}
}

// TestToolsEndTogether has a tool leave something running that outlasts its time.
func TestToolsEndTogether(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("groups of processes are killed on Linux")
	}
	t.Parallel()
	b := newBench(t)
	at := func(name string) string { return filepath.Join(b.home, name) }
	b.script("npm", fmt.Sprintf("(touch %s; until [ -e %s ]; do sleep 0.02; done; touch %s) & sleep 600", at("begun"), at("over"), at("outlived")))
	for _, within := range []time.Duration{500 * time.Millisecond, 5 * time.Second, 50 * time.Second} { // until it begins in time
		if _, err := collect(t.Context(), Options{Dir: t.TempDir(), Env: b.env, Timeout: within}, tools[1:2]); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(at("begun")); err == nil {
			break
		}
	}
	if _, err := os.Stat(at("begun")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(at("over"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	time.Sleep(500 * time.Millisecond)
	if _, err := os.Stat(at("outlived")); !os.IsNotExist(err) {
		t.Errorf("it went on: %v", err)
	}
}

// TestNoNetwork has an index that does not answer: what settings name is there.
func TestNoNetwork(t *testing.T) {
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	b := newBench(t)
	b.script("npm", "echo '{\"registry\":\""+gone.URL+"\",\"@a:registry\":\"https://nowhere.invalid/x\"}'")
	l := b.ask(t.TempDir(), "npm")
	b.expect(l, allow(gone), "npm: registry", true, "")
	b.expect(l, "nowhere.invalid:443", "npm: @a:registry", false, "")
	if !l.Incomplete || !strings.Contains(strings.Join(l.Notes, "\n"), "could not be asked") {
		t.Errorf("%+v", l)
	}
}

// TestProxiesAreEntries has npm go through one, as its settings and the environment say.
func TestProxiesAreEntries(t *testing.T) {
	var asked []string
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.String()+" "+r.Header.Get("Proxy-Authorization"))
		fmt.Fprint(w, `{"dist":{"tarball":"https://files.invalid/x"}}`)
	}))
	t.Cleanup(proxy.Close)
	b := newBench(t)
	b.script("npm", `echo '{"registry":"http://far.invalid/","@near:registry":"http://near.corp.invalid/"}'`)
	b.set("http_proxy="+strings.Replace(proxy.URL, "//", "//me:px-secret@", 1), "NO_PROXY=.corp.invalid")
	l := b.ask(t.TempDir(), "npm")
	b.expect(l, allow(proxy), "environment: HTTP_PROXY", true, basicCredential("me", "px-secret").Header())
	b.expect(l, "files.invalid:443", "far.invalid points to it", false, "")
	if want := "http://far.invalid/npm/latest " + basicCredential("me", "px-secret").Header(); !slices.Equal(asked, []string{want}) {
		t.Errorf("the proxy was asked for %q", asked)
	}
	b.quiet(l, "px-secret")
}

// TestPointsInward has an index that points to addresses of this host's network.
func TestPointsInward(t *testing.T) {
	b := newBench(t)
	var page strings.Builder
	for _, at := range []string{"http://169.254.169.254/latest/", "http://10.0.0.1:6443/", "http://[::1]:22/", "http://user:pw@192.168.1.1/", "file:///etc/passwd", "//127.0.0.1:1/", "javascript:x"} {
		fmt.Fprintf(&page, "<a href=%q>x</a>", at)
	}
	for i := range 50 {
		fmt.Fprintf(&page, "<a href='https://h%d.invalid/'>x</a>", i)
	}
	s := b.serve(map[string]string{"/pip/": page.String()}, "")
	b.script("pip", `[ "$1" = config ] || printf '1 location(s) to search for versions of pip:\n* `+s.URL+`/pip/\n'`)
	l := b.ask(t.TempDir(), "pip")
	for _, e := range l.Entries {
		if e.Private != (e.Allow == allow(s)) || e.Withheld != (!e.Private && !strings.Contains(e.Allow, ".invalid")) || e.Credential != nil {
			t.Errorf("%+v", e)
		}
	}
	notes := strings.Join(l.Notes, "\n")
	if len(l.Entries) != 1+maxPointed || !strings.Contains(notes, "169.254.169.254:80 is private, and stays out of reach") || !strings.Contains(notes, "over 8 hosts") {
		t.Errorf("%d entries, and %s", len(l.Entries), notes)
	}
}

// TestPointsWhereSettingsLead has an index point to names at its own private address, at
// another port of that, and elsewhere: the first is at that address and no other.
func TestPointsWhereSettingsLead(t *testing.T) {
	led, other := netip.MustParseAddr("10.0.0.5"), netip.MustParseAddr("10.0.0.6")
	c := &collection{timeout: patience, names: &resolver{lookup: func(_ context.Context, _, host string) ([]netip.Addr, error) {
		return map[string][]netip.Addr{"index.example": {led}, "same.example": {led, netip.MustParseAddr("::ffff:10.0.0.6")}, "other.example": {other}}[host], nil
	}}}
	index := &url.URL{Scheme: "https", Host: "index.example"}
	c.sites = []site{{url: index, from: "pip: x"}}
	v := &visit{site: c.sites[0]}
	for _, text := range []string{"https://same.example/", "http://same.example/", "https://other.example/", "https://10.0.0.5/"} {
		u, err := url.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		v.found(u)
	}
	c.visits = []*visit{v}
	c.enter(t.Context())
	got := map[string]Entry{}
	for _, e := range c.list.Entries {
		got[e.Allow] = Entry{Private: e.Private, Withheld: e.Withheld, At: e.At}
	}
	want := map[string]Entry{"index.example:443": {Private: true}, "same.example:443": {At: []netip.Addr{led}}, "same.example:80": {Withheld: true, At: []netip.Addr{}},
		"other.example:443": {Withheld: true, At: []netip.Addr{}}, "10.0.0.5:443": {Withheld: true}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v", got)
	}
}

// TestRedirectionsKeepSecrets has an index redirect to another port that a setting names,
// which is asked, and is shown no credential of the first.
func TestRedirectionsKeepSecrets(t *testing.T) {
	b := newBench(t)
	second := b.serve(map[string]string{"/npm/latest": `{"dist":{"tarball":"/x"}}`}, "")
	first := b.serve(map[string]string{"/npm/latest": ">" + second.URL + "/npm/latest"}, basicCredential("a", "b").Header())
	b.script("npm", `echo '{"registry":"`+strings.Replace(first.URL, "//", "//a:b@", 1)+`","@s:registry":"`+second.URL+`"}'`)
	if l := b.ask(t.TempDir(), "npm"); l.Incomplete || len(l.Entries) != 2 {
		t.Errorf("%+v", l)
	}
}
