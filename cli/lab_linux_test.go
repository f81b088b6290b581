package cli

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"aether/driver/all"
	"aether/lab"
	"aether/lab/labtest"
	labrun "aether/lab/run"
	"aether/profile"
	"aether/sandbox"
)

// makeRun writes a run of cells and bubblewrap, whose cold starts take so long.
func makeRun(t *testing.T, dir string, cold float64) {
	t.Helper()
	h := labrun.Header{Schema: labrun.Schema, ID: filepath.Base(dir), Systems: []string{"cell", "bubblewrap", "firecracker"}}
	for _, a := range profile.Axes() {
		h.Axes = append(h.Axes, a.String())
	}
	store, err := labrun.Create(dir, h)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	add := func(r labrun.Record) {
		if err := store.Append(r); err != nil {
			t.Fatal(err)
		}
	}
	random := rand.New(rand.NewPCG(uint64(cold), 1))
	for i, name := range []string{"cell", "bubblewrap"} {
		add(labrun.Record{Kind: labrun.Found, System: name, Machine: &labrun.Machine{Boundary: "process"}})
		for range 30 {
			value := cold * float64(1+20*i) * (0.9 + 0.2*random.Float64())
			add(labrun.Record{Kind: labrun.Sampled, System: name, Axis: "start-latency", Figure: labrun.Cold, At: 1, Value: value, Unit: labrun.Microseconds})
		}
		add(labrun.Record{Kind: labrun.Absent, System: name, Axis: "isolation", Reason: "nobody tries it"})
	}
	add(labrun.Record{Kind: labrun.Sampled, System: "cell", Axis: "density", Figure: labrun.Memory, At: 10, Value: 100, Unit: labrun.KiB})
	add(labrun.Record{Kind: labrun.Found, System: "firecracker", Reason: "no KVM\x1b[31m"})
	add(labrun.Record{Kind: labrun.Quiet, Busy: 0.5, Load: 3})
	add(labrun.Record{Kind: labrun.End})
}

func TestLabAnswers(t *testing.T) {
	dir := t.TempDir()
	before, after := filepath.Join(dir, "before"), filepath.Join(dir, "after")
	makeRun(t, before, 1000)
	makeRun(t, after, 2000)
	drivers := []sandbox.Driver{driver("cell", sandbox.ProcessBoundary, sandbox.Report{Usable: true}), driver("bubblewrap", sandbox.ProcessBoundary, sandbox.Report{Usable: true}),
		driver("gvisor", sandbox.KernelBoundary, sandbox.Report{Usable: true}), driver("firecracker", sandbox.HardwareBoundary, sandbox.Report{Reason: "no KVM", Remedy: "get one"})}
	for args, says := range map[string][]string{
		"lab show " + before:                                         {"The machine was busy", "firecracker was not measured: no KVM", "No score of isolation of cell, bubblewrap: nobody tries it", "1.00 / 0.98"},
		"lab show " + before + " --why":                              {"each of 10 idle sandboxes holds 100 KiB", "median"},
		"lab show " + before + " --html":                             {"<!doctype html>", "One start at a time", "</html>"},
		"lab show " + before + " --svg":                              {"<svg", "cold start", "bubblewrap", "</svg>"},
		"lab show " + before + " --csv":                              {"cell,density,1,memory,10,kib,1,100"},
		"lab show " + before + " --json":                             {`"complete": true`, `"curated": 0.98`},
		"lab compare " + before + " " + after:                        {"2 of 2 figures changed from before to after", "start-latency cold", "False alarms"},
		"lab compare " + before + " " + before + " --agree":          {"both runs rank 1 alike or tied", "Of 1 ratios to the cold start of bubblewrap, 1 are within 15%"},
		"lab compare " + before + " " + before:                       {"0 of 2 figures changed", "False alarms of the test, on halves of these runs"},
		"rank --measured " + before:                                  {" 1  cell", "Measured on this host by the run before", "is of fewer axes"},
		"rank --measured " + before + " --by density --json":         {`"system": "cell"`, `"start_latency": 1`},
		"compare cell bwrap --measured " + before:                    {"cell vs bubblewrap", "start-latency: +0.", "isolation: not measured: cell: nobody tries it"},
		"choose --measured " + before + " --prefer density":          {"cell (boundary process), by the scores that the run before measured", "gvisor unmeasured", "not firecracker: no KVM"},
		"choose --isolation kernel --measured " + before + " --json": {`"choice": "gvisor"`},
	} {
		out := succeedWith(t, drivers, strings.Fields(args)...)
		flat := strings.Join(strings.Fields(out), " ")
		for _, text := range says {
			if !strings.Contains(flat, strings.Join(strings.Fields(text), " ")) {
				t.Errorf("%s does not say %q:\n%s", args, text, out)
			}
		}
		if strings.Contains(out, "\x1b") {
			t.Errorf("%s has a raw escape", args)
		}
	}
	for args, says := range map[string]string{
		"lab show " + dir:                                  "there is no run",
		"lab run --systems unheard-of":                     `--systems: "unheard-of" is not known`,
		"lab run --axes speed":                             `axis: "speed" is not known`,
		"lab run --out " + before:                          "is complete",
		"rank --measured " + before + " --core":            "cannot be combined",
		"compare cell kata --measured " + before:           "kata is not in the run",
		"compare cell firecracker --measured " + before:    "was not measured",
		"choose --isolation hardware --measured " + before: "no system with a boundary of hardware or more runs on this host (firecracker: get one)",
		"choose --prefer speed":                            `axis: "speed" is not known`,
		"lab show " + before + " --json --csv":             "cannot be combined",
		"lab show " + before + " --html --csv":             "cannot be combined",
		"lab show " + before + " --svg --html":             "cannot be combined",
	} {
		got := run(t, drivers, strings.Fields(args)...)
		if got.status == 0 || got.stdout != "" {
			t.Errorf("%s: %+v", args, got)
		}
		checkLine(t, got.stderr, says)
	}
}

// runWith runs a command over a table of drivers that are made when they are asked for.
func runWith(t *testing.T, table []sandbox.Maker, args ...string) outcome {
	var stdout, stderr strings.Builder
	status := Main(t.Context(), args, strings.NewReader(""), &stdout, &stderr, table)
	return outcome{stdout.String(), stderr.String(), status}
}

// TestLabIsStopped: an interrupted run leaves neither process nor file, and goes on.
func TestLabIsStopped(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("AETHER_STATE_DIR", filepath.Join(dir, "state"))
	temporary := filepath.Join(dir, "tmp")
	if err := os.Mkdir(temporary, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", temporary)
	before, err := lab.ReadProcesses()
	if err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(dir, "out")
	done := make(chan outcome)
	go func() {
		done <- runWith(t, all.Makers()[:1], "lab", "run", "--quick", "--axes", "start-latency", "--out", out)
	}()
	for text := ""; !strings.Contains(text, `"kind":"sample"`); time.Sleep(5 * time.Millisecond) {
		content, _ := os.ReadFile(filepath.Join(out, labrun.RecordsFile)) // which is not there at first
		text = string(content)
		select {
		case got := <-done:
			t.Fatalf("it ends by itself: %+v", got)
		default:
		}
	}
	self, err := os.FindProcess(os.Getpid())
	if err == nil {
		err = self.Signal(os.Interrupt)
	}
	if err != nil {
		t.Fatal(err)
	}
	got := <-done
	if got.status != 1 || !strings.Contains(got.stderr, "aether lab run --out "+out+" goes on") {
		t.Errorf("%+v", got)
	}
	now, err := lab.ReadProcesses()
	if err != nil {
		t.Fatal(err)
	}
	if left, err := now.Of(nil, before); err != nil || len(left) > 0 {
		t.Errorf("processes are left: %v, %v", left, err)
	}
	if left, err := os.ReadDir(temporary); err != nil || len(left) > 0 {
		t.Errorf("files are left: %v, %v", left, err)
	}
	if got = runWith(t, all.Makers()[:1], "lab", "run", "--out", out); got.status != 0 || !strings.Contains(got.stdout, "quick") {
		t.Errorf("%+v", got)
	}
}

// TestLabRun measures real cells by the command, and the last run is found again.
func TestLabRun(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("AETHER_STATE_DIR", filepath.Join(dir, "state"))
	table := all.Makers()[:1]
	if table[0].Name != "cell" {
		t.Fatalf("the first driver of the build is %s", table[0].Name)
	}
	main := func(args ...string) outcome { return runWith(t, table, args...) }
	if got := main("choose"); got.status != 0 || !strings.Contains(got.stdout, "of the profiles") {
		t.Errorf("%+v", got)
	}
	labtest.Probe(t)
	got := main("lab", "run", "--quick", "--axes", "agent-control,isolation")
	if got.status != 0 || !strings.Contains(got.stdout, "1.00 / 0.90") || !strings.Contains(got.stdout, "0.4") {
		t.Fatalf("%+v", got)
	}
	stored := filepath.Join(dir, "state", "snapshots", "blobs")
	if left, err := os.ReadDir(stored); err != nil || len(left) > 0 {
		t.Errorf("in the store of snapshots are left %v, %v", left, err)
	}
	if got = main("rank", "--measured", "last"); got.status != 0 || !strings.Contains(got.stdout, "cell") {
		t.Errorf("%+v", got)
	}
	if got = main("choose"); got.status != 0 || !strings.Contains(got.stdout, "measured on this host") {
		t.Errorf("%+v", got)
	}
}
