package docker_test

import (
	"archive/tar"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"aether/driver/docker"
	"aether/driver/docker/dockertest"
	"aether/driver/guestagent"
	"aether/sandbox"
)

// archived are the names in the archive of a snapshot.
func archived(t *testing.T, dir string) (names []string) {
	t.Helper()
	file, err := os.Open(filepath.Join(dir, guestagent.FilesFile))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for reader := tar.NewReader(file); ; {
		h, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return names
		}
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, h.Name)
	}
}

// TestOnlyWhatWasWrittenIsKept: of a container whose upper directory this program sees,
// nothing of the image is in a snapshot; of another, all of it.
func TestOnlyWhatWasWrittenIsKept(t *testing.T) {
	instance, dir := create(t, sandbox.Spec{Command: sandbox.CommandDefaults{User: "root"}}), t.TempDir()
	sh(t, instance, "echo written > /srv/written")
	if err := instance.(sandbox.Snapshotter).Snapshot(t.Context(), dir, sandbox.Filesystem); err != nil {
		t.Fatal(err)
	}
	var about struct{ Driver string }
	if err := dockertest.Ask(t.Context(), os.Getenv("DOCKER_HOST")[len("unix://"):], "/info", &about); err != nil {
		t.Fatal(err)
	}
	names := archived(t, dir)
	seen := about.Driver == "overlay2" && os.Geteuid() == 0
	if !slices.Contains(names, "srv/written") || slices.Contains(names, "etc/passwd") == seen {
		t.Errorf("with %s it has %q", about.Driver, names)
	}
	again, err := docker.New(docker.Options{}).Restore(t.Context(), dir, sandbox.Checkpoint, sandbox.Spec{})
	if sandbox.ClassOf(err) != sandbox.Unsupported {
		t.Errorf("%v, %v", again, err)
	}
}
