package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"aether/engine"
	"aether/internal/host/features"
	"aether/sandbox"
)

func someHost(userns features.State) func(context.Context) []features.Facility {
	return func(context.Context) []features.Facility {
		found := []features.Facility{
			{Name: "seccomp", State: features.OK, Required: true, Detail: "filters"},
			{Name: "kvm", State: features.Limited, Detail: "there, but\nunable to run any ordinary guest at all", Cost: "no machines", Remedy: "another host"},
			{Name: "landlock", State: features.Missing, Detail: "not offered", Cost: "a layer"},
			{Name: "user namespaces", State: userns, Required: true, Detail: "usable"},
		}
		if userns != features.OK {
			found[3].Cost = "everything"
		}
		return found
	}
}

func doctor(t *testing.T, survey func(context.Context) []features.Facility, args ...string) outcome {
	t.Helper()
	return doctorOf(t, survey, nil, args...)
}

func doctorOf(t *testing.T, survey func(context.Context) []features.Facility, stuck []engine.Stuck, args ...string) outcome {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd := doctorWith(survey, func(context.Context) (engine.Diagnosis, error) {
		return engine.Diagnosis{Stuck: stuck, Layers: engine.LayerUse{Count: len(stuck), Bytes: 3 << 20}}, nil
	})
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetArgs(append([]string{}, args...))
	cmd.SetOut(&stdout)
	status := report(&stderr, cmd.ExecuteContext(t.Context()))
	return outcome{stdout.String(), stderr.String(), status}
}

func TestDoctorTable(t *testing.T) {
	want := `   facility         found
✓  seccomp          filters
!  kvm              there, but unable to run any ordinary guest at all
                    costs: no machines
                    mends: another host
✗  landlock         not offered
                    costs: a layer
✓  user namespaces  usable

The built-in engine can run on this host. Gaps: 2.
`
	if got := doctor(t, someHost(features.OK)); got != (outcome{want, "", 0}) {
		t.Errorf("status %d, %q\ngot\n%s\nwant\n%s", got.status, got.stderr, got.stdout, want)
	}
}

func TestDoctorFailsWhereTheEngineCannotRun(t *testing.T) {
	got := doctor(t, someHost(features.Missing))
	if got.status != 1 || got.stderr != "" || !strings.HasSuffix(got.stdout, "cannot run on this host.\n") {
		t.Errorf("status %d, %q\n%s", got.status, got.stderr, got.stdout)
	}
	// What is there in part is enough.
	if got := doctor(t, someHost(features.Limited)); got.status != 0 {
		t.Errorf("limited: status %d", got.status)
	}
}

func TestDoctorFitsTheTerminal(t *testing.T) {
	d := diagnosis{Facilities: someHost(features.Missing)(t.Context())}
	for line := range strings.Lines(d.table(50).render(screen{width: 50})) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 50 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	coloured := d.table(0).render(screen{colour: true})
	for _, want := range []string{"\x1b[32m✓", "\x1b[33m!", "\x1b[33m✗", "\x1b[31m✗"} {
		if !strings.Contains(coloured, want) {
			t.Errorf("no %q in\n%s", want, coloured)
		}
	}
}

// On whatever host this runs, status and answer agree, and every gap says what
// it costs.
func TestDoctorOfThisHost(t *testing.T) {
	got := doctor(t, features.Survey, "--json")
	var d diagnosis
	if err := json.Unmarshal([]byte(got.stdout), &d); err != nil {
		t.Fatalf("%v\n%s", err, got.stdout)
	}
	if d.Usable != (got.status == 0) || len(d.Facilities) == 0 {
		t.Errorf("usable %v, status %d, %d facilities", d.Usable, got.status, len(d.Facilities))
	}
	for _, f := range d.Facilities {
		if (f.State == features.OK) != (f.Cost == "") || f.Detail == "" || f.Name == "" {
			t.Errorf("%+v", f)
		}
	}
}

func TestDoctorTakesNoArguments(t *testing.T) {
	if got := doctor(t, someHost(features.OK), "please"); got.status != 2 || got.stdout != "" {
		t.Errorf("status %d, %q", got.status, got.stdout)
	}
}

// refusing is a driver that makes nothing.
type refusing struct {
	answering
	err error
}

func (r refusing) Create(context.Context, sandbox.Spec) (sandbox.Instance, error) { return nil, r.err }

// TestDoctorNoticesThatNothingRuns: everything may be there, and the engine still
// fail.
func TestDoctorNoticesThatNothingRuns(t *testing.T) {
	refused := &sandbox.Error{Class: sandbox.Unavailable, Reason: "a step was refused", Remedy: "another kernel"}
	engine := refusing{answering{info: sandbox.Info{Name: builtIn}}, refused}
	got := tryRun(t.Context(), newDrivers(makers([]sandbox.Driver{engine})))
	if got.State != features.Missing || !got.Required || got.Detail != "a step was refused" || got.Remedy != "another kernel" {
		t.Errorf("%+v", got)
	}
	if got := tryRun(t.Context(), newDrivers(nil)); got.State != features.Missing {
		t.Errorf("without an engine: %+v", got)
	}
}

// TestDoctorListsStuckSandboxes that the daemon cannot resume, whatever their reasons say.
func TestDoctorListsStuckSandboxes(t *testing.T) {
	stuck := []engine.Stuck{
		{ID: "abc", Tenant: "acme", Driver: "cell", Reason: "its processes were running under another kernel", Remedy: "restore its files alone", Files: true},
		{ID: "def", Tenant: "acme", Driver: "cell", Reason: "evil \x1b[31m name"},
	}
	got := doctorOf(t, someHost(features.OK), stuck)
	want := `
paused sandbox  tenant  files       why it cannot be resumed
abc             acme    can be had  its processes were running under another kernel
                                    mends: restore its files alone
`
	if got.status != 0 || !strings.Contains(got.stdout, want) || !strings.Contains(got.stdout, "lost") || strings.Contains(got.stdout, "\x1b[31m") {
		t.Errorf("status %d\n%s", got.status, got.stdout)
	}
	if !strings.Contains(got.stdout, "the daemon keeps 2 layers of recipes, 3.0 MiB: aether prune --dry-run names them") {
		t.Errorf("of layers it says\n%s", got.stdout)
	}
	if got := doctorOf(t, someHost(features.OK), stuck, "--json"); !strings.Contains(got.stdout, `"id": "abc"`) {
		t.Errorf("%s", got.stdout)
	}
}
