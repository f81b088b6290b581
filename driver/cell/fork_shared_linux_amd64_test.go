package cell_test

import (
	"testing"
	"time"

	"aether/sandbox"
)

// TestForkSharesNoLocks: a file of the image, one that the source wrote before it
// was forked, a directory of the host and a device are locked in one cell, which
// none of its kin notices. What else could be noticed is tried in the escape tests
// of internal/host/confine.
func TestForkSharesNoLocks(t *testing.T) {
	needRoot(t, "fork of such cells")
	need(t, "flock")
	const files = "/usr/bin/env /usr/bin /etc/passwd /etc /dev/full /dev /tmp/mine"
	for name, limits := range map[string]sandbox.Limits{"in memory": {}, "on disk": {DiskBacked: true}} {
		t.Run(name, func(t *testing.T) {
			driver, _ := newDriver(t)
			source := create(t, driver, sandbox.Spec{Limits: limits})
			sh(t, source, "echo mine > /tmp/mine")
			kin := append(fork(t, source, 2), create(t, driver, sandbox.Spec{Limits: limits}))
			start(t, source, "for f in "+files+"; do flock $f sleep 1000 & done; wait")
			free := func(i sandbox.Instance) string {
				return sh(t, i, "touch /tmp/mine; for f in "+files+"; do flock -n $f true && echo $f; done; true")
			}
			if !eventually(10*time.Second, func() bool { return free(source) == "" }) {
				t.Fatalf("not locked in the source: %s", free(source))
			}
			for _, i := range kin {
				if got, want := free(i), sh(t, i, "printf '%s\n' "+files); got != want {
					t.Errorf("not locked are %q, not %q", got, want)
				}
			}
		})
	}
}
