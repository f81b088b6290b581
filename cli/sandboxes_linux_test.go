package cli

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"

	"aether/engine"
)

// decode reads an answer in JSON.
func decode[T any](t *testing.T, text string) (value T) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return value
}

// TestSandboxLife: a sandbox is made, found, changed, branched and removed.
func TestSandboxLife(t *testing.T) {
	newHome(t)
	made := decode[engine.Sandbox](t, succeed(t, "create", "--json", "--metadata", "task=42", "--metadata", "owner=me", "--pids", "100", "--timeout", "1h", "--on-timeout", "pause", "--auto-resume"))
	if made.State != engine.Running || made.Metadata["task"] != "42" || made.Spec.Limits.Processes != 100 || made.Then != engine.ThenPause || !made.AutoResume || made.Expires.IsZero() || made.Why == "" {
		t.Errorf("%+v", made)
	}
	other := create(t, "--metadata", "task=43")
	for _, c := range []struct{ flags, want string }{
		{"", other + "\n" + made.ID + "\n"},
		{"--metadata task=42", made.ID + "\n"},
		{"--state running --driver cell --metadata task=43", other + "\n"},
		{"--state paused", ""},
		{"--driver docker", ""},
		{"--tenant nobody", ""},
	} {
		if got := succeed(t, append([]string{"list", "--quiet"}, strings.Fields(c.flags)...)...); got != c.want {
			t.Errorf("list %s: %q, want %q", c.flags, got, c.want)
		}
	}
	// How long ago that was depends on the host.
	row := regexp.MustCompile(made.ID + `  running  cell    \d+s ago +pause in 59m  host  owner=me task=42`)
	if got := succeed(t, "list"); !row.MatchString(got) {
		t.Errorf("%s", got)
	}
	succeed(t, "set", made.ID, "--timeout", "0", "--metadata", "task=44")
	if got := decode[engine.Sandbox](t, succeed(t, "get", made.ID, "--json")); !got.Expires.IsZero() || len(got.Metadata) != 1 || got.Metadata["task"] != "44" {
		t.Errorf("%+v", got)
	}
	succeed(t, "rm", other, made.ID)
	if got := succeed(t, "get", other); !strings.Contains(got, "\ncause     destroyed") {
		t.Errorf("%s", got)
	}
	if got := decode[[]engine.Sandbox](t, succeed(t, "list", "--json")); len(got) != 0 {
		t.Errorf("%+v", got)
	}
	if got := decode[[]engine.Sandbox](t, succeed(t, "list", "--json", "--all")); len(got) != 2 {
		t.Errorf("%+v", got)
	}
}

// TestCreateTwiceByKey gives the same sandbox.
func TestCreateTwiceByKey(t *testing.T) {
	newHome(t)
	first := create(t, "--idempotency-key", "task-42")
	if again := create(t, "--idempotency-key", "task-42"); again != first {
		t.Errorf("%s, then %s", first, again)
	}
	got := run(t, nil, "create", "--idempotency-key", "task-42", "--pids", "9")
	if got.status != 1 {
		t.Errorf("%+v", got)
	}
}

// TestForkPrintsChildren, which go on with what their source has.
func TestForkPrintsChildren(t *testing.T) {
	newHome(t)
	id := create(t)
	succeed(t, "exec", id, "--", "sh", "-c", "echo before > /tmp/x")
	children := strings.Fields(succeed(t, "fork", id, "-n", "2", "--metadata", "try=1"))
	if len(children) != 2 {
		t.Fatalf("%q", children)
	}
	for _, child := range children {
		if got := succeed(t, "exec", child, "--", "cat", "/tmp/x"); got != "before\n" {
			t.Errorf("a child has %q", got)
		}
		if got := decode[engine.Sandbox](t, succeed(t, "get", child, "--json")); got.Parent != id || got.Metadata["try"] != "1" {
			t.Errorf("%+v", got)
		}
	}
	got := decode[map[string][]string](t, run(t, nil, "rm", "--json", children[0], "nosuch", children[1]).stdout)
	if len(got["removed"]) != 2 {
		t.Errorf("removed are %v", got)
	}
}

// TestEventsAreTold, in their order, to one who asks later and to one who follows.
func TestEventsAreTold(t *testing.T) {
	newHome(t)
	id := create(t)
	succeed(t, "rm", id)
	var kinds []string
	for line := range strings.Lines(succeed(t, "events", "--json", id)) {
		e := decode[engine.Event](t, line)
		if e.Sandbox != id || e.Number == 0 {
			t.Errorf("%+v", e)
		}
		kinds = append(kinds, string(e.Kind))
	}
	if strings.Join(kinds, " ") != "created started ended" {
		t.Errorf("%q", kinds)
	}
	if got := succeed(t, "events", "--since", "2"); strings.Count(got, "\n") != 1 || !strings.HasPrefix(got, "3  ") || !strings.Contains(got, "ended        "+id+"  cause=destroyed") {
		t.Errorf("%s", got)
	}
	checkLine(t, run(t, nil, "events", "--since", "99").stderr, "99 is not the number of an event")
}

func TestIDsAreCompleted(t *testing.T) {
	newHome(t)
	if got := offered(t, "exec", ""); got != ":4" {
		t.Errorf("without a daemon, %q is offered", got)
	}
	if _, err := os.Lstat(daemonSocket()); err == nil {
		t.Error("a daemon was started")
	}
	id := create(t)
	for _, args := range [][]string{{"exec", ""}, {"rm", id[:3]}, {"shell", ""}, {"logs", ""}, {"pause", ""}} {
		if got := offered(t, args...); got != id+" :4" {
			t.Errorf("%q: %q is offered", args, got)
		}
	}
	if got := offered(t, "resume", ""); got != ":4" {
		t.Errorf("%q is offered", got)
	}
	if got := offered(t, "cp", id[:4]); got != id+": :6" {
		t.Errorf("%q is offered", got)
	}
}

// TestSandboxCommandsRefuse bad input before anybody is asked, and say what to do about
// what does not exist.
func TestSandboxCommandsRefuse(t *testing.T) {
	newHome(t)
	for args, says := range map[string]string{
		"create x":                      "create takes none",
		"create --memory much":          "--memory",
		"create --on-timeout stop":      "(known: kill, pause)",
		"create --timeout -1s":          "--timeout: -1s is negative",
		"create --metadata x":           `--metadata: "x" is not K=V`,
		"create --template t --image x": "--image: a fork has what its template has",
		"list --state gone":             "(known: running, paused, ended)",
		"list --all --state paused":     "cannot be combined",
		"get":                           "get takes one id",
		"exec x":                        "an id and a command are needed",
		"exec --detach -i x -- cat":     "--detach: it cannot be combined",
		"exec -e x y -- true":           `--env: "x" is not K=V`,
		"shell":                         "one id",
		"shell --attach 3 x -- bash":    "unless --attach",
		"cp a b":                        "one of both must be ID:PATH",
		"cp x:/a y:/b":                  "one of both must be ID:PATH",
		"logs x y":                      `process: "y" is the number of no process`,
		"logs -f --json x":              "--json: it cannot be combined with --follow",
		"logs --console x 3":            "--console: it cannot be combined with --follow or a process",
		"logs --console -f x":           "--console: it cannot be combined with --follow or a process",
		"set x":                         "neither --timeout nor --metadata",
		"set x --on-timeout kill":       "--on-timeout: it needs --timeout",
		"fork x -n 0":                   "--count: 0 is less than 1",
		"rm":                            "rm takes one id or more",
		"events a b":                    "events takes one id at most",
		"serve --idle-exit -1s":         "--idle-exit: -1s is negative",
	} {
		got := run(t, nil, strings.Fields(args)...)
		if got.status != 2 || got.stdout != "" {
			t.Errorf("%s: %+v", args, got)
		}
		checkLine(t, got.stderr, says)
	}
	for args, status := range map[string]int{"get nosuch": 1, "rm nosuch": 1, "pause nosuch": 1, "fork nosuch": 1, "logs nosuch": 1, "cp nosuch:/x /tmp": 1, "exec nosuch -- true": 125} {
		got := run(t, nil, strings.Fields(args)...)
		if got.status != status {
			t.Errorf("%s: %+v", args, got)
		}
		checkLine(t, got.stderr, "see aether list --all")
	}
}
