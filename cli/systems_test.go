package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"aether/sandbox"
)

// answering is a driver of which only what systems asks exists.
type answering struct {
	sandbox.Driver
	info  sandbox.Info
	probe func(context.Context) sandbox.Report
}

func (d answering) Info() sandbox.Info                       { return d.info }
func (d answering) Probe(ctx context.Context) sandbox.Report { return d.probe(ctx) }

func driver(name string, b sandbox.Boundary, r sandbox.Report) sandbox.Driver {
	verbs := sandbox.Verbs{Pause: true, Snapshot: sandbox.Checkpoint, Restore: sandbox.Checkpoint}
	if b == sandbox.ProcessBoundary {
		verbs = sandbox.Verbs{Fork: sandbox.Live}
	}
	return answering{info: sandbox.Info{Name: name, Boundary: b, Verbs: verbs}, probe: func(context.Context) sandbox.Report { return r }}
}

func someDrivers() []sandbox.Driver {
	return []sandbox.Driver{
		driver("bubblewrap", sandbox.ProcessBoundary, sandbox.Report{Usable: true, Version: "0.8.0", Gaps: []sandbox.Gap{
			{Missing: "cgroup v2", Cost: "memory is not limited", Remedy: "mount it"},
			{Missing: "user namespaces", Cost: "root is needed"}}}),
		driver("firecracker", sandbox.HardwareBoundary, sandbox.Report{
			Reason: "/dev/kvm is not there", Remedy: "load the kvm module on a host that has one, or rent one"}),
		driver("another", sandbox.KernelBoundary, sandbox.Report{Usable: true}),
	}
}

func TestSystemsWithDrivers(t *testing.T) {
	golden(t, "systems-drivers.txt", run(t, someDrivers(), "systems").stdout)
	golden(t, "systems-drivers.json", run(t, someDrivers(), "systems", "--json").stdout)
	golden(t, "systems-drivers-60.txt", systemsText(availabilities(t.Context(), someDrivers()), screen{width: 60})+"\n")
	golden(t, "systems-drivers-120.txt", systemsText(availabilities(t.Context(), someDrivers()), screen{width: 120})+"\n")
}

func TestProbesRunTogetherAndHangingOnesAreLeft(t *testing.T) {
	release := make(chan struct{})
	defer close(release)
	deaf := answering{info: sandbox.Info{Name: "kata", Boundary: sandbox.HardwareBoundary}, probe: func(context.Context) sandbox.Report {
		<-release
		return sandbox.Report{Usable: true}
	}}
	one, other := deaf, deaf
	one.info.Name, other.info.Name = "crun", "youki"
	got := map[string]availability{}
	for _, within := range []time.Duration{100 * time.Millisecond, time.Second, time.Minute} { // until the host is fast enough
		meet := make(chan struct{})
		one.probe = func(context.Context) sandbox.Report { meet <- struct{}{}; return sandbox.Report{Usable: true} }
		other.probe = func(context.Context) sandbox.Report { <-meet; return sandbox.Report{Usable: true} }
		ctx, cancel := context.WithTimeout(t.Context(), within)
		defer cancel()
		var stdout, stderr bytes.Buffer
		status := Main(ctx, []string{"systems", "--json"}, strings.NewReader(""), &stdout, &stderr, makers([]sandbox.Driver{deaf, one, other}))
		if status != 0 {
			t.Fatalf("status %d: %s", status, stderr.String())
		}
		var list []availability
		if err := json.Unmarshal(stdout.Bytes(), &list); err != nil {
			t.Fatal(err)
		}
		for _, a := range list {
			got[a.System] = a
		}
		if a := got["kata"]; !a.Driver || a.Usable || !strings.Contains(a.Reason, "did not answer") {
			t.Errorf("the deaf driver is %+v", a)
		}
		if got["crun"].Usable && got["youki"].Usable {
			return
		}
	}
	t.Error("probes that need each other did not run together")
}
