package list

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"aether/sandbox"
)

func writeLists(t *testing.T, lists map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range lists {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestLoad(t *testing.T) {
	dir := writeLists(t, map[string]string{
		"models.list": "# models\napi.example.com:443/tcp # the main one\n\n*.Example.org\ntools\npackages\n",
		"tools.list":  "git.corp.example:22/tcp private\n10.1.0.0/16:443\n203.0.113.7\nAPI.example.com:443/tcp\n[fd00::/8]:443\n0.0.0.0/0\n8.8.8.8/32\nntp.corp.example:123/udp\npublic\n",
		"README":      "not a list\n", ".hidden.list": "%%%",
	})
	b, err := Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	if names := b.Names(); !slices.Equal(names, []string{"models", "tools"}) {
		t.Errorf("%q", names)
	}
	l, err := b.List("models")
	if err != nil {
		t.Fatal(err)
	}
	tools := filepath.Join(dir, "tools.list")
	want := []Entry{
		{Allow: "api.example.com:443", From: filepath.Join(dir, "models.list") + ":2, " + tools + ":4"},
		{Allow: "*.example.org", From: filepath.Join(dir, "models.list") + ":4"},
		{Allow: "git.corp.example:22", Private: true, From: tools + ":1"},
		{Allow: "10.1.0.0/16:443", Private: true, From: tools + ":2"},
		{Allow: "203.0.113.7", Private: true, From: tools + ":3"},
		{Allow: "[fd00::/8]:443", Private: true, From: tools + ":5"},
		{Allow: "0.0.0.0/0", Private: true, From: tools + ":6"},
		{Allow: "8.8.8.8", From: tools + ":7"},
		{Allow: "ntp.corp.example:123/udp", From: tools + ":8"},
	}
	if !reflect.DeepEqual(l.Entries, want) || !slices.Equal(l.Includes, []string{"public", "packages"}) {
		t.Errorf("%+v", l)
	}
	one, err := Load(tools)
	if err != nil || !slices.Equal(one.Names(), []string{"tools"}) {
		t.Errorf("%v, %v", one, err)
	}
	if _, err := b.List("none"); sandbox.ClassOf(err) != sandbox.NotFound {
		t.Error(err)
	}
}

func TestLoadRefuses(t *testing.T) {
	for what, c := range map[string]struct {
		lists map[string]string
		want  []string
	}{
		"bad entries": {map[string]string{"a.list": "ok.example\nhttps://x.example\n\nb.example:0\nc.example secret\n"},
			[]string{`a.list:2: "https://x.example": `, `a.list:4: "b.example:0": `, `a.list:5: "c.example secret" `}},
		"cycle":        {map[string]string{"a.list": "b\n", "b.list": "c\n", "c.list": "#\na\n"}, []string{`a.list:1: "b" `, `c.list:2: "a" `}},
		"itself":       {map[string]string{"a.list": "a\n"}, []string{`a.list:1: "a" `}},
		"unknown list": {map[string]string{"a.list": "nothing\n"}, []string{`a.list:1: "nothing" is no list; a host of one word is written nothing. or with a port`}},
		"private list": {map[string]string{"a.list": "packages private\n"}, []string{`a.list:1: "packages private" is a list`}},
		"old include":  {map[string]string{"a.list": "include packages\n"}, []string{`a.list:1: "include packages" has more`}},
		"reserved":     {map[string]string{"packages.list": "", "public.list": ""}, []string{"packages.list", "public.list"}},
		"name":         {map[string]string{"Has Space.list": ""}, []string{"cannot name a list"}},
		"long line":    {map[string]string{"a.list": strings.Repeat("x", 5000)}, []string{"a.list:1"}},
		"many entries": {map[string]string{"a.list": strings.Repeat("a.example\n", 6000), "b.list": strings.Repeat("a.example\n", 6000)}, []string{"over 10000 entries"}},
		"many faults":  {map[string]string{"a.list": strings.Repeat("%\n", 100)}, []string{"and 80 lines more are wrong"}},
	} {
		b, err := Load(writeLists(t, c.lists))
		if err == nil || b != nil {
			t.Errorf("%s: it is accepted", what)
			continue
		}
		for _, want := range c.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %q is not in %v", what, want, err)
			}
		}
		if sandbox.ClassOf(err) != sandbox.Invalid {
			t.Errorf("%s: %v", what, sandbox.ClassOf(err))
		}
	}
	if _, err := Load(filepath.Join(t.TempDir(), "none")); sandbox.ClassOf(err) != sandbox.NotFound {
		t.Error(err)
	}
}

func TestListsThatOthersWrite(t *testing.T) {
	dir := writeLists(t, map[string]string{"a.list": "a.example\n"})
	if err := os.Chmod(filepath.Join(dir, "a.list"), 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(dir); sandbox.ClassOf(err) != sandbox.Denied {
		t.Errorf("a file: %v", err)
	}
	if err := os.Chmod(filepath.Join(dir, "a.list"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(dir); sandbox.ClassOf(err) != sandbox.Denied {
		t.Errorf("a directory: %v", err)
	}
}

// TestPrivateAddresses: what a list calls private is what a policy denies by itself.
func TestPrivateAddresses(t *testing.T) {
	r := &resolver{own: []netip.Addr{netip.MustParseAddr("192.31.196.4")}, lookup: func(_ context.Context, _, host string) ([]netip.Addr, error) {
		return map[string][]netip.Addr{"in.example": {netip.MustParseAddr("8.8.8.8"), netip.MustParseAddr("::ffff:10.0.0.1")}, "out.example": {netip.MustParseAddr("8.8.8.8")}}[host], nil
	}}
	for text, want := range map[string]bool{
		"8.8.8.8": false, "192.31.196.4": true, "::ffff:192.31.196.4": true, "10.0.0.1": true, "169.254.169.254": true, "203.0.113.8": true, "::1": true, "2606:4700::1": false,
		"64:ff9b::808:808": true, "8.0.0.0/8": false, "192.31.196.0/24": true, "0.0.0.0/0": true, "::/0": true, "in.example": true, "out.example": false, "*.in.example": false,
	} {
		to, err := sandbox.ParseReach(text)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := r.private(t.Context(), to); len(got) > 0 != want || err != nil {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
}

func FuzzFile(f *testing.F) {
	f.Add([]byte("a.example:443 private # x\nb\n10.0.0.0/8\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		faults := &faults{}
		read := parseFile("x.list", text, faults)
		for _, e := range read.entries {
			if err := e.check(); err != nil {
				t.Fatal(err)
			}
		}
		b := &Book{lists: map[string]*file{"x": read}}
		b.checkIncludes(faults)
		if err := faults.err(); err == nil {
			if _, err := b.List("x"); err != nil {
				t.Fatal(err)
			}
		} else if len(err.Error()) > 1<<16 {
			t.Fatal(fmt.Sprint(len(err.Error()), " bytes of faults"))
		}
	})
}
