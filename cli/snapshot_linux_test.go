package cli

import (
	"regexp"
	"runtime"
	"strings"
	"testing"

	"aether/engine"
	"aether/sandbox"
)

// TestSnapshotsAreTaken, listed, made sandboxes of, gone back to and removed.
func TestSnapshotsAreTaken(t *testing.T) {
	newHome(t)
	id := create(t)
	succeed(t, "exec", id, "--", "sh", "-c", "echo before > /tmp/x")
	s := strings.TrimSpace(succeed(t, "snapshot", "create", id, "--files", "--name", "green", "--metadata", "task=42", "--idempotency-key", "k"))
	if again := strings.TrimSpace(succeed(t, "snapshot", "create", id, "--files", "--name", "green", "--metadata", "task=42", "--idempotency-key", "k")); again != s {
		t.Errorf("%s, then %s", s, again)
	}
	succeed(t, "exec", id, "--", "sh", "-c", "echo after > /tmp/x")
	if got := succeed(t, "snapshot", "list"); !strings.Contains(got, s+"  green  "+id+"  files") || !strings.Contains(got, "task=42") {
		t.Errorf("%s", got)
	}
	for _, c := range []struct{ flags, want string }{{"--name green", s + "\n"}, {"--sandbox " + id, s + "\n"}, {"--metadata task=42", s + "\n"}, {"--name red", ""}} {
		if got := succeed(t, append([]string{"snapshot", "list", "--quiet"}, strings.Fields(c.flags)...)...); got != c.want {
			t.Errorf("list %s: %q", c.flags, got)
		}
	}
	made := create(t, "--snapshot", s, "--files", "--pids", "100")
	if got := decode[engine.Sandbox](t, succeed(t, "get", made, "--json")); got.Snapshot != s || got.Spec.Limits.Processes != 100 {
		t.Errorf("%+v", got)
	}
	if got := decode[engine.Sandbox](t, succeed(t, "rollback", id, "--snapshot", s, "--json")); got.ID != id {
		t.Errorf("%+v", got)
	}
	for _, box := range []string{id, made} {
		if got := succeed(t, "exec", box, "--", "cat", "/tmp/x"); got != "before\n" {
			t.Errorf("%s has %q", box, got)
		}
	}
	if got := offered(t, "snapshot", "rm", ""); got != s+" :4" {
		t.Errorf("%q is offered", got)
	}
	succeed(t, "pause", "--files", id)
	if got := decode[engine.Sandbox](t, succeed(t, "get", id, "--json")); got.Fidelity != sandbox.Filesystem {
		t.Errorf("%+v", got)
	}
	succeed(t, "resume", id)
	if got := decode[map[string][]string](t, succeed(t, "snapshot", "rm", "--json", s)); len(got["removed"]) != 1 {
		t.Errorf("removed are %v", got)
	}
	if got := decode[[]engine.Snapshot](t, succeed(t, "snapshot", "list", "--json")); len(got) != 0 {
		t.Errorf("%+v", got)
	}
}

// TestMarksAreMade, listed, gone back to and removed.
func TestMarksAreMade(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("cells are forked on amd64 only")
	}
	newHome(t)
	id := create(t)
	succeed(t, "exec", id, "--", "sh", "-c", "echo before > /tmp/x")
	made := run(t, nil, "mark", "create", id, "here")
	if strings.Contains(made.stderr, "cannot be frozen") {
		t.Skip(made.stderr)
	}
	if made.stdout != "here\n" {
		t.Fatalf("%+v", made)
	}
	if got := succeed(t, "mark", "create", id); got != "2\n" {
		t.Errorf("%q", got)
	}
	succeed(t, "exec", id, "--", "rm", "/tmp/x")
	succeed(t, "rollback", id, "--mark", "here")
	if got := succeed(t, "exec", id, "--", "cat", "/tmp/x"); got != "before\n" {
		t.Errorf("it has %q", got)
	}
	succeed(t, "mark", "rm", id, "2")
	if got := succeed(t, "mark", "list", id); !regexp.MustCompile(`here +\d+s ago`).MatchString(got) || strings.Contains(got, "2 ") {
		t.Errorf("%s", got)
	}
	if got := decode[[]engine.Mark](t, succeed(t, "mark", "list", id, "--json")); len(got) != 1 || got[0].Name != "here" {
		t.Errorf("%+v", got)
	}
}

// TestSnapshotCommandsRefuse bad input before anybody is asked, and what does not exist.
func TestSnapshotCommandsRefuse(t *testing.T) {
	newHome(t)
	for args, says := range map[string]string{
		"snapshot x":                       `snapshot: "x" is not known`,
		"snapshot create":                  "create takes one id",
		"snapshot create x --metadata y":   `--metadata: "y" is not K=V`,
		"snapshot list x":                  "list takes none",
		"snapshot rm":                      "rm takes one id or more",
		"rollback":                         "rollback takes one id",
		"rollback x":                       "name a snapshot or a --mark",
		"rollback x --snapshot s --mark m": "name a snapshot or a --mark",
		"rollback x --mark m --files":      "--files: it cannot be combined with --mark",
		"mark create":                      "an id and, if you like, a name",
		"mark rm x":                        "an id and one name or more",
		"create --files":                   "--files: it needs --snapshot",
		"create --snapshot s --image x":    "--image: a fork has what its template has",
		"create --snapshot s --template t": "--snapshot: it cannot be combined with --template",
	} {
		got := run(t, nil, strings.Fields(args)...)
		if got.status != 2 || got.stdout != "" {
			t.Errorf("%s: %+v", args, got)
		}
		checkLine(t, got.stderr, says)
	}
	for args, says := range map[string]string{
		"snapshot create nosuch": "see aether list --all", "rollback nosuch --mark m": "see aether list --all", "mark list nosuch": "see aether list --all",
		"snapshot rm nosuch": "see aether snapshot list", "create --snapshot nosuch": "see aether snapshot list",
	} {
		got := run(t, nil, strings.Fields(args)...)
		if got.status != 1 {
			t.Errorf("%s: %+v", args, got)
		}
		checkLine(t, got.stderr, says)
	}
}
