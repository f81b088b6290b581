package main

import (
	"bytes"
	"fmt"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"aether/internal/testroot"
	"aether/sandbox"
)

// TestE2BImage has the client build a template of an image that a registry on the loopback
// has, and that the tenant's policy allows.
func TestE2BImage(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("a cell of an ordinary user may have one user, and templates are built by two")
	}
	setGateway(t)
	home := installE2B(t)
	host, ref := smallImage(t)
	state := t.TempDir()
	s := serve(t, state, "--config", tenantsFile(t, fmt.Sprintf(`{"registries": [%q], "default_limits": {"memory_bytes": 536870912, "disk_bytes": 1073741824}}`, host)))
	url := "http://" + s.address
	results := runE2B(t, home, "FILES=image", "IMAGE="+ref, "E2B_API_URL="+url, "E2B_SANDBOX_URL="+url, "E2B_API_KEY="+newKey(t, state, "--tenant", "acme"))
	if len(results) != 1 || results[0].Error != "" {
		t.Errorf("%+v", results)
	}
}

// smallImage is a real registry with an image of a few of this host's programs.
func smallImage(t *testing.T) (host, ref string) {
	t.Helper()
	dir := t.TempDir()
	err := testroot.Make(dir, append([]string{"tar", "gzip"}, testroot.Shell...), nil)
	if sandbox.ClassOf(err) == sandbox.NotFound {
		t.Skipf("this host has too few programs for an image: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "only-there"), []byte("from the registry\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	archive, err := exec.Command("tar", "-C", dir, "-c", "--owner=0", "--group=0", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(archive)), nil })
	if err != nil {
		t.Fatal(err)
	}
	img, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		t.Fatal(err)
	}
	config, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Config.Env = "linux", runtime.GOARCH, []string{"FROM=image"}
	if img, err = mutate.ConfigFile(img, config); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)
	host = strings.TrimPrefix(server.URL, "http://")
	tag, err := name.ParseReference(host + "/small:v1")
	if err == nil {
		err = remote.Write(tag, img)
	}
	if err != nil {
		t.Fatal(err)
	}
	return host, tag.String()
}
