package engine_test

import (
	"archive/tar"
	"bytes"
	"testing"

	"aether/engine"
	"aether/sandbox"
)

// TestArchives: steps put the files of an archive in place, for the tenant that has kept it
// and over a restart; they are not those of another, and a template may leave nothing
// running.
func TestArchives(t *testing.T) {
	h := newHouse(t, sandbox.Checkpoint)
	e := h.open()
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	if err := w.WriteHeader(&tar.Header{Name: "a", Mode: 0o640, Size: 1}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	recipe := engine.Recipe{Name: "files", Idle: true, Steps: []engine.Step{
		{Files: engine.Files{Archive: "aa", Source: "a", Target: "/tmp/deep/b", Owner: "user"}},
		{Command: []string{"sh", "-c", `cp /tmp/deep/b "$TO"`}, Env: map[string]string{"TO": "c"}, Dir: "/tmp/deep"},
	}}
	_, err := e.PrepareTemplate(t.Context(), alice, engine.TemplateRequest{Recipe: recipe}, nil)
	wantClass(t, err, sandbox.NotFound)
	if err := e.KeepArchive(t.Context(), alice, "aa", &archive); err != nil {
		t.Fatal(err)
	}
	wantClass(t, e.KeepArchive(t.Context(), alice, "../aa", &archive), sandbox.Invalid)
	_, err = e.PrepareTemplate(t.Context(), bob, engine.TemplateRequest{Recipe: recipe}, nil)
	wantClass(t, err, sandbox.NotFound)
	if err := e.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	e = h.open()
	for who, want := range map[engine.Caller]bool{alice: true, bob: false} {
		if there, err := e.HasArchive(t.Context(), who, "aa"); err != nil || there != want {
			t.Errorf("that %s has it is %v, %v", who.Tenant, there, err)
		}
	}
	if _, err := e.PrepareTemplate(t.Context(), alice, engine.TemplateRequest{Recipe: recipe}, nil); err != nil {
		t.Fatal(err)
	}
	s := create(t, e, alice, engine.CreateRequest{Template: "files"})
	if got := sh(t, e, alice, s.ID, "cat /tmp/deep/b /tmp/deep/c; stat -c %a /tmp/deep/b"); got != "xx640" && got != "xx640\n" {
		t.Errorf("%q", got)
	}
}
