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
