package overlay

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"aether/image"
	"aether/sandbox"
)

func TestLayers(t *testing.T) {
	bare, err := MakeBare(filepath.Join(t.TempDir(), "bare"))
	if err != nil {
		t.Fatal(err)
	}
	linked, file, dir := t.TempDir(), t.TempDir(), t.TempDir()
	for _, step := range []func() error{
		func() error { return os.Symlink("/etc", filepath.Join(linked, "proc")) },
		func() error { return os.WriteFile(filepath.Join(file, "usr"), nil, 0o644) },
		func() error { return os.Mkdir(filepath.Join(dir, "usr"), 0o755) },
	} {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
	bind := []image.Bind{{Source: "/usr", Target: "/usr"}}
	for name, c := range map[string]struct {
		root image.Root
		ok   bool
	}{
		"nothing":            {image.Root{}, true},
		"/proc is a link":    {image.Root{Layers: []string{linked}}, false},
		"a link below":       {image.Root{Layers: []string{linked, dir}}, false},
		"/usr is missing":    {image.Root{Binds: bind}, false},
		"/usr is a file":     {image.Root{Layers: []string{dir, file}, Binds: bind}, false},
		"/usr covers a file": {image.Root{Layers: []string{file, dir}, Binds: bind}, true},
	} {
		got, err := bare.Layers(c.root)
		if (err == nil) != c.ok || err != nil && sandbox.ClassOf(err) != sandbox.Invalid {
			t.Errorf("%s: %v", name, err)
		}
		if c.ok && !slices.Equal(got, append([]string{string(bare)}, c.root.Layers...)) {
			t.Errorf("%s: %q", name, got)
		}
	}
	if _, err := MakeBare(string(bare)); err != nil {
		t.Errorf("made again: %v", err)
	}
}
