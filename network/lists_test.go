package network

import (
	"context"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"aether/network/list"
	"aether/network/policy"
	"aether/sandbox"
)

// listHost is a host whose one package manager notes that it was asked, and whose operator
// has some lists.
func listHost(t *testing.T) (host list.Host, asked string) {
	t.Helper()
	dir := t.TempDir()
	asked = filepath.Join(dir, "asked")
	for path, text := range map[string]string{
		"bin/npm":           "#!/bin/sh\necho x >> " + asked + "\necho '{\"registry\":\"http://127.0.0.1:1/\"}'\n",
		"lists/models.list": "api.example.com:443\ngit.corp.example:22 private\ntools\n",
		"lists/tools.list":  "10.0.0.0/8:5432\nntp.example.com:123/udp\npackages\npublic\n",
	} {
		path = filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", filepath.Join(dir, "bin"))
	t.Setenv("HOME", dir)
	return list.Host{Dir: filepath.Join(dir, "state"), Path: filepath.Join(dir, "lists")}, asked
}

func TestLists(t *testing.T) {
	host, _ := listHost(t)
	got, err := Lists(host)(t.Context(), "models")
	if err != nil {
		t.Fatal(err)
	}
	want := []policy.Rule{
		{Reach: sandbox.Reach{Name: "api.example.com", First: 443, Last: 443}},
		{Reach: sandbox.Reach{Name: "git.corp.example", First: 22, Last: 22}, Private: true},
		{Reach: sandbox.Reach{Prefix: netip.MustParsePrefix("10.0.0.0/8"), First: 5432, Last: 5432}, Private: true},
		{Reach: sandbox.Reach{Name: "ntp.example.com", First: 123, Last: 123, UDP: true}},
		{Reach: sandbox.Reach{Prefix: netip.MustParsePrefix("127.0.0.1/32"), First: 1, Last: 1}, Private: true},
		{Public: true},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v", got)
	}
}

// TestWithheldIsNoRule: what an index points to inside, by an address or a name, is not
// reached.
func TestWithheldIsNoRule(t *testing.T) {
	at := []netip.Addr{netip.MustParseAddr("10.0.0.5")}
	got, err := rulesOf(list.List{Entries: []list.Entry{{Allow: "10.0.0.1:80", Withheld: true}, {Allow: "in.example:80", Withheld: true}, {Allow: "files.example:443", At: at}}})
	if want := []policy.Rule{{Reach: sandbox.Reach{Name: "files.example", First: 443, Last: 443}, At: at}}; err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestListsThatAreNot(t *testing.T) {
	host, _ := listHost(t)
	n := sandbox.Network{Mode: sandbox.EgressNetwork, Allow: []string{"modles"}}
	_, err := policy.Compile(t.Context(), n, Lists(host), nil)
	if sandbox.ClassOf(err) != sandbox.Invalid || !strings.Contains(err.Error(), `network.allow: no list is called "modles"`) {
		t.Errorf("%v", err)
	}
	host.Path += "/nowhere"
	if _, err := policy.Compile(t.Context(), n, Lists(host), nil); !strings.Contains(err.Error(), "does not exist") {
		t.Errorf("%v", err)
	}
}

// TestToolsAreAskedOnce: whoever needs the answer that another waits for gets that one.
func TestToolsAreAskedOnce(t *testing.T) {
	host, asked := listHost(t)
	lists := Lists(host)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if rules, err := lists(t.Context(), list.NamePackages); err != nil || len(rules) != 1 {
				t.Errorf("%+v, %v", rules, err)
			}
		})
	}
	all.Wait()
	if text, err := os.ReadFile(asked); err != nil || string(text) != "x\n" {
		t.Errorf("%q, %v", text, err)
	}
}

func TestToolsAreToldOf(t *testing.T) {
	host, _ := listHost(t)
	var mu sync.Mutex
	var told [][]string
	ctx := list.WithProgress(t.Context(), func(names []string) {
		mu.Lock()
		defer mu.Unlock()
		told = append(told, names)
	})
	if _, err := Lists(host)(ctx, list.NamePackages); err != nil {
		t.Fatal(err)
	}
	if len(told) < 3 || !slices.Contains(told[0], "npm") || !slices.ContainsFunc(told, func(names []string) bool { return slices.Equal(names, []string{"127.0.0.1:1"}) }) {
		t.Errorf("%q", told)
	}
}

func TestGivesUpWaiting(t *testing.T) {
	l := &lists{asking: make(chan struct{}, 1)}
	l.asking <- struct{}{}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := l.rules(ctx, list.NamePackages); err != context.Canceled {
		t.Errorf("%v", err)
	}
}

// TestCredentialsOfLists: they are sent, and known to nobody but who asked the tools: these
// are asked again by a program that finds only that there are some.
func TestCredentialsOfLists(t *testing.T) {
	host, asked := listHost(t)
	npm := "#!/bin/sh\necho x >> " + asked + "\necho '{\"registry\":\"https://me:pw-secret@registry.invalid/\",\"@a:registry\":\"http://me:pw-secret@plain.invalid/\"}'\n"
	if err := os.WriteFile(filepath.Join(host.Dir, "../bin/npm"), []byte(npm), 0o755); err != nil {
		t.Fatal(err)
	}
	for program := range 2 {
		lists := Lists(host)
		for range 2 {
			rules, err := lists(t.Context(), list.NamePackages)
			if err != nil || len(rules) != 2 {
				t.Fatalf("%+v, %v", rules, err)
			}
			for _, r := range rules {
				if sent := r.Authorization.Reveal(); (r.Name == "registry.invalid") != (sent == "Basic bWU6cHctc2VjcmV0") || (r.Name == "plain.invalid") != (sent == "") {
					t.Errorf("%s is sent %q", r.Name, sent)
				}
			}
		}
		if text, err := os.ReadFile(asked); err != nil || string(text) != strings.Repeat("x\n", program+1) {
			t.Errorf("program %d: %q, %v", program, text, err)
		}
	}
	err := filepath.WalkDir(host.Dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		if strings.Contains(string(text), "pw-secret") || strings.Contains(string(text), "bWU6cHctc2VjcmV0") {
			t.Errorf("%s has it", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
