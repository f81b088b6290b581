package guestagent

import (
	"os"
	"path/filepath"
	"testing"

	"aether/sandbox"
)

func TestFind(t *testing.T) {
	place := func(mode os.FileMode) string {
		path := filepath.Join(t.TempDir(), Name)
		if err := os.WriteFile(path, nil, mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	program, text := place(0o755), place(0o644)
	for _, c := range []struct{ variable, path, want string }{
		{program, "", program},
		{program, filepath.Dir(place(0o755)), program},
		{"", filepath.Dir(program), program},
		{text, filepath.Dir(program), ""},
		{"/no/such", filepath.Dir(program), ""},
		{"", filepath.Dir(text), ""},
		{"", "", ""},
	} {
		t.Setenv(PathVariable, c.variable)
		t.Setenv("PATH", c.path)
		got, err := Find()
		if got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%+v: %q, %v", c, got, err)
		}
		if err != nil && sandbox.ClassOf(err) != sandbox.Unavailable {
			t.Errorf("%+v: %v is not Unavailable", c, err)
		}
	}
}
