package image

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"aether/sandbox"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// TestCollect: what is needed stays, with the layers that it shares; what was replaced goes
// when nothing runs; the host's skeleton stays.
func TestCollect(t *testing.T) {
	s := openStore(t)
	base := tarOf(t, file("base", "shared"))
	needed := writeLayout(t, map[string]v1.Image{"": imageOf(t, base, tarOf(t, file("a", "1")))})
	other := writeLayout(t, map[string]v1.Image{"": imageOf(t, base, tarOf(t, file("b", "2")))})
	root, host := resolve(t, s, needed), resolve(t, s, "")
	resolve(t, s, other)
	orphan := filepath.Join(s.dir, "layers", "0123")
	check(t, os.Mkdir(orphan, 0o755))
	check(t, os.WriteFile(filepath.Join(orphan, "file"), make([]byte, 8192), 0o644))

	collect := func(need sandbox.Need) (kinds []string, bytes int64) {
		t.Helper()
		gone, err := s.Collect(t.Context(), need)
		check(t, err)
		for _, one := range gone {
			kinds, bytes = append(kinds, one.Kind+" "+one.Name), bytes+one.Bytes
		}
		return kinds, bytes
	}
	need := sandbox.Need{Images: []string{needed, ""}, DryRun: true}
	would, bytes := collect(need)
	if want := []string{"image " + other, "layer 0123"}; !slices.Equal(would, want) || bytes < 8192 {
		t.Errorf("would remove %q, %d bytes, want %q", would, bytes, want)
	}
	need.DryRun, need.Running = false, true
	if did, _ := collect(need); !slices.Equal(did, would[:1]) {
		t.Errorf("while something runs, %q went", did)
	}
	need.Running = false
	if did, _ := collect(need); !slices.Equal(did, would[1:]) {
		t.Errorf("then %q went", did)
	}
	if did, _ := collect(need); len(did) > 0 {
		t.Errorf("then again %q", did)
	}
	for _, dir := range slices.Concat(root.Layers, host.Layers) {
		if _, err := os.Stat(dir); err != nil {
			t.Errorf("what is needed is gone: %v", err)
		}
	}
	if images, err := s.List(); err != nil || len(images) != 1 || images[0].Ref != needed {
		t.Errorf("%+v, %v", images, err)
	}
}

// TestCollectBesideOthers: what another program may be using stays.
func TestCollectBesideOthers(t *testing.T) {
	s := openStore(t)
	layout := writeLayout(t, map[string]v1.Image{"": sampleImage(t)})
	resolve(t, s, layout)
	child := exec.Command("/proc/self/exe")
	child.Env = append(os.Environ(), resolveEnv+"="+s.dir+" "+layout, holdEnv+"=1")
	out, err := child.StdoutPipe()
	check(t, err)
	check(t, child.Start())
	_, err = bufio.NewReader(out).ReadString('\n')
	check(t, err)
	_, err = s.Collect(t.Context(), sandbox.Need{})
	wantClass(t, err, sandbox.Conflict)
	check(t, child.Process.Kill())
	_ = child.Wait() // killed, so always an error
	if gone, err := s.Collect(t.Context(), sandbox.Need{}); err != nil || len(gone) == 0 {
		t.Errorf("%+v, %v", gone, err)
	}
}

// TestCollectOfTenants: what anybody has fetched stays while somebody needs it.
func TestCollectOfTenants(t *testing.T) {
	s := openStore(t)
	for _, ref := range []string{"tenant acme ghcr.io/a/b:1", "anybody ghcr.io/a/b:1", "anybody ghcr.io/c/d:1"} {
		check(t, s.writeRecord(record{Ref: ref}))
	}
	gone, err := s.Collect(t.Context(), sandbox.Need{Images: []string{"ghcr.io/a/b:1"}})
	if err != nil || len(gone) != 1 || gone[0].Name != "anybody ghcr.io/c/d:1" {
		t.Errorf("%+v, %v", gone, err)
	}
}
