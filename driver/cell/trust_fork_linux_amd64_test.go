package cell_test

import (
	"testing"

	"aether/image/snapshot"
	"aether/sandbox"
)

// believer has read whom it believes before it is told to go on.
const believer = `
import os, ssl, time, urllib.request
context = ssl.create_default_context(cafile=os.environ["SSL_CERT_FILE"])
print("ready")
while not os.path.exists("/tmp/go"):
    time.sleep(0.02)
said = urllib.request.urlopen("https://api.example.com/v1/x", context=context, timeout=120).read().decode()
open("/tmp/said.new", "w").write(said)
os.rename("/tmp/said.new", "/tmp/said")
time.sleep(600)
`

// TestTrustOfForks: a program that has read its certificates believes the gateway of the
// cell that it was forked into, which has its own.
func TestTrustOfForks(t *testing.T) {
	instance := newRuledCell(t)
	need(t, "python3")
	out := sh(t, instance, "cat > /tmp/believer.py <<'E'\n"+believer+"E\npython3 -u /tmp/believer.py > /tmp/out 2>&1 &\n"+
		"for n in $(seq 2400); do [ -s /tmp/out ] && break; sleep 0.05; done; cat /tmp/out")
	if out != "ready" {
		t.Fatal(out)
	}
	children, err := instance.(sandbox.Forker).Fork(withToken(t.Context()), make([]sandbox.Spec, 1))
	if err != nil {
		t.Fatal(err)
	}
	child := children[0]
	t.Cleanup(func() { destroy(t, child) })
	said := func(i sandbox.Instance) string {
		return sh(t, i, "touch /tmp/go; for n in $(seq 2400); do [ -e /tmp/said ] && break; sleep 0.05; done; cat /tmp/said")
	}
	if got := said(child); got != rightKey {
		t.Errorf("in the child: %q", got)
	}
	if got := said(instance); got != rightKey {
		t.Errorf("in the source: %q", got)
	}
	if got := sh(t, child, requests["curl"]); got != rightKey {
		t.Errorf("a new program of the child: %q", got)
	}
}

// TestKeptAuthority: the key of a gateway's authority is kept with the memory of programs that
// may believe it, and with nothing else.
func TestKeptAuthority(t *testing.T) {
	needRoot(t, "checkpoint of such cells")
	instance := newRuledCell(t)
	for _, keep := range []sandbox.Fidelity{sandbox.Filesystem, sandbox.Checkpoint} {
		dir := t.TempDir()
		if err := instance.(sandbox.Snapshotter).Snapshot(t.Context(), dir, keep); err != nil {
			t.Fatal(err)
		}
		rec, err := snapshot.Read(dir)
		if err != nil {
			t.Fatal(err)
		}
		if kept := len(rec.Authority) > 0; kept != (keep == sandbox.Checkpoint) {
			t.Errorf("%v: the key is there: %v", keep, kept)
		}
	}
}
