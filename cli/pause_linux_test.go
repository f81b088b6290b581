package cli

import (
	"runtime"
	"strings"
	"testing"
	"time"

	"aether/engine"
)

// TestPauseAndResume: a paused sandbox keeps its daemon, is found and used no more until it
// is resumed, and then its processes go on where they were; so does one that is to be
// resumed by use.
func TestPauseAndResume(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("the memory of cells is kept on amd64 only")
	}
	newHome(t)
	plain, used := create(t), create(t, "--auto-resume")
	for _, id := range []string{plain, used} {
		succeed(t, "exec", "--detach", id, "--", "sh", "-c", "while ! test -e /tmp/go; do sleep 0.05; done; echo gone on > /tmp/done; sleep 60")
	}
	paused := decode[[]engine.Sandbox](t, succeed(t, "pause", "--json", plain, used))
	if len(paused) != 2 || paused[0].State != engine.Paused || paused[0].ID != plain {
		t.Errorf("%+v", paused)
	}
	time.Sleep(4 * idleExit)
	if got := strings.Fields(succeed(t, "list", "--quiet", "--state", "paused")); len(got) != 2 {
		t.Errorf("paused are %q", got)
	}
	got := run(t, nil, "exec", plain, "--", "true")
	if got.status != 125 {
		t.Errorf("%+v", got)
	}
	checkLine(t, got.stderr, "the sandbox is paused (resume it)")
	if got := offered(t, "resume", plain[:10]); got != plain+" :4" {
		t.Errorf("%q is offered", got)
	}
	succeed(t, "resume", plain)
	for _, id := range []string{plain, used} { // the second one by use
		succeed(t, "exec", id, "--", "touch", "/tmp/go")
		eventually(t, "what was left to do", func() bool { return run(t, nil, "exec", id, "--", "cat", "/tmp/done").stdout == "gone on\n" })
	}
}
