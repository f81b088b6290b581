package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"aether/sandbox"
)

func TestParse(t *testing.T) {
	file := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(file, nil, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args  string
		field string // that is refused, or empty
	}{
		{"", ""},
		{"-driver firecracker -binary " + file, ""},
		{"-driver virtualbox", "driver"},
		{"-binary /nowhere/at/all", "binary"},
		{"-binary " + t.TempDir(), "binary"},
		{"-memory 100", "memory"},
		{"-unknown", "flags"},
		{"rest", "flags"},
	} {
		_, err := parse(strings.Fields(c.args), io.Discard)
		e, _ := err.(*sandbox.Error)
		if c.field == "" && err != nil || c.field != "" && (e == nil || e.Field != c.field) {
			t.Errorf("%q: %v", c.args, err)
		}
	}
}

func TestFollow(t *testing.T) {
	for console, want := range map[string]struct {
		code  int
		found bool
	}{
		"boot\r\nPASS\r\n" + verdict + "0\r\n": {0, true},
		verdict + "2\n":                        {2, true},
		verdict + "many\n":                     {0, false},
		"Kernel panic\n":                       {0, false},
		"":                                     {0, false},
	} {
		var out bytes.Buffer
		if code, found := follow(strings.NewReader(console), &out); code != want.code || found != want.found {
			t.Errorf("%q: %d, %v", console, code, found)
		}
		if shown := strings.ReplaceAll(console, "\r", ""); out.String() != shown {
			t.Errorf("shown %q, want %q", out.String(), shown)
		}
	}
}

// Every driver that the lab knows is there to be tested, or will be.
func TestPackagesAreNamesOfFolders(t *testing.T) {
	for name, folder := range packages {
		if strings.ContainsAny(folder, "/-") || slices.Contains([]string{"", "all", "drivertest"}, folder) {
			t.Errorf("%s: %q is no driver's folder", name, folder)
		}
	}
	for name := range programs {
		if packages[name] == "" {
			t.Errorf("%s has programs and no folder", name)
		}
	}
}

// What a release has beside a program goes to the lab with it.
func TestBinaries(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	for _, name := range []string{"firecracker-v1", "jailer-v1", "firecracker", "cloud-hypervisor"} {
		if err := os.WriteFile(path(name), nil, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		driver, binary string
		want           []string
	}{
		{"firecracker", path("firecracker-v1"), []string{path("firecracker-v1"), path("jailer-v1")}},
		{"firecracker", path("firecracker"), []string{path("firecracker")}},
		{"cloud-hypervisor", path("cloud-hypervisor"), []string{path("cloud-hypervisor")}},
		{"firecracker", "", nil},
	} {
		l := &lab{options: options{driver: c.driver, binary: c.binary}}
		if got := l.binaries(); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.binary, got, c.want)
		}
		handed := slices.ContainsFunc(l.config(nil).Env, func(s string) bool { return strings.HasPrefix(s, "AETHER_TEST_BINARY=") })
		if handed != (c.binary != "") {
			t.Errorf("%s: the tests know of it is %v", c.binary, handed)
		}
	}
}
