package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"aether/network/list"
)

// netHost is a host whose one package manager has an index with a password, and whose
// operator has a list.
func netHost(t *testing.T) (lists string) {
	t.Helper()
	dir := t.TempDir()
	program := "#!/bin/sh\necho '{\"registry\":\"https://me:hunter2@packages.invalid/npm/\"}'\n"
	for path, text := range map[string]string{"bin/npm": program, "lists/models.list": "api.example.com:443/tcp # the main one\ngit.corp.example:22 private\npackages\n"} {
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
	t.Setenv("AETHER_STATE_DIR", filepath.Join(dir, "state"))
	return filepath.Join(dir, "lists")
}

func TestNetLists(t *testing.T) {
	lists := netHost(t)
	printed := succeed(t, "net", "lists", "--lists", lists)
	for _, want := range []string{
		"packages: what pip, npm, go, cargo and apt of this host use", "packages.invalid:443           [secret]    npm: registry",
		"skipped pip: it is not in PATH", "note    npm: registry: what packages.invalid points to could not be asked",
		"public: every public address", "models: the file " + lists + "/models.list", "git.corp.example:22  private", "models.list:2\n", "includes packages",
	} {
		if !strings.Contains(printed, want) {
			t.Errorf("%q is not in\n%s", want, printed)
		}
	}
	if asJSON := succeed(t, "net", "lists", "--json", "--lists", lists); strings.Contains(printed+asJSON, "hunter2") {
		t.Errorf("the password is shown:\n%s%s", printed, asJSON)
	}
}

func TestNetListsJSON(t *testing.T) {
	lists := netHost(t)
	var one list.List
	if err := json.Unmarshal([]byte(succeed(t, "net", "lists", "models", "--json", "--lists", lists)), &one); err != nil {
		t.Fatal(err)
	}
	if one.Name != "models" || len(one.Entries) != 2 || !one.Entries[1].Private || !slices.Equal(one.Includes, []string{"packages"}) {
		t.Errorf("%+v", one)
	}
	var all []list.List
	if err := json.Unmarshal([]byte(succeed(t, "net", "lists", "--json", "--lists", lists)), &all); err != nil || len(all) != 3 {
		t.Errorf("%+v, %v", all, err)
	}
}

func TestNetListsRefuses(t *testing.T) {
	lists := netHost(t)
	for args, says := range map[string]string{
		"net list":                                "did you mean lists?",
		"net lists modles --lists " + lists:       "did you mean models?",
		"net lists a b":                           "lists takes one name, or none for all lists, 2 given",
		"net lists --timeout 0s":                  "--timeout",
		"net lists --lists " + lists + "/nowhere": "does not exist",
	} {
		if got := run(t, nil, strings.Fields(args)...); got.status == 0 || !strings.Contains(got.stderr, says) {
			t.Errorf("%s: %+v", args, got)
		}
	}
	if err := os.WriteFile(filepath.Join(lists, "bad.list"), []byte("ok.example\nhttps://no.example\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if got := run(t, nil, "net", "lists", "--lists", lists); got.status != 2 || !strings.Contains(got.stderr, `bad.list:2: "https://no.example"`) {
		t.Errorf("%+v", got)
	}
}
