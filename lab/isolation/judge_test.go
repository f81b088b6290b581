package isolation

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"aether/internal/host/isolationprobe"
	"aether/sandbox"
)

// safeDocument is that of a sandbox on the host's kernel in which every probe is closed.
func safeDocument() (isolationprobe.Document, outside) {
	o := outside{values: map[string]string{}, environment: map[string]bool{"secret": true}, before: counted{100, 10}, after: counted{200, 20}}
	user := 1 << 30
	o.user = &user
	d := isolationprobe.Document{Calls: isolationprobe.Calls{Tried: 100, Answered: 50, Refused: 25, Absent: 25}}
	for _, p := range table {
		s := isolationprobe.Sighting{Name: p.Name, State: isolationprobe.Closed}
		switch {
		case strings.HasPrefix(p.Name, "ns-"), p.Name == "kernel-boot-id", p.Name == "kernel-version", p.Name == "see-hostname", p.Name == "see-shadow":
			s.State, s.Seen, o.values[p.Name] = isolationprobe.Value, "ours", "theirs"
		case p.Name == "kernel-counters":
			s.State, s.Seen = isolationprobe.Value, "1 1"
		case p.Name == "see-environment":
			s.State, s.Seen = isolationprobe.Value, "harmless"
		case p.Name == "root-outside":
			s.State = isolationprobe.Value
		}
		d.Sightings = append(d.Sightings, s)
	}
	return d, o
}

var process = sandbox.Info{Name: "test", Boundary: sandbox.ProcessBoundary}

// unsafely makes one sighting a finding.
func unsafely(d *isolationprobe.Document, o *outside, name string) {
	for i := range d.Sightings {
		if s := &d.Sightings[i]; s.Name == name {
			switch {
			case o.values[name] != "":
				s.Seen = o.values[name]
			case name == "see-environment":
				s.Seen = "harmless secret"
			case name == "root-outside":
				root := 0
				o.user = &root
			default:
				s.State = isolationprobe.Open
			}
		}
	}
}

// TestScoreIsMonotone: every finding, every unknown and every reachable call lowers the
// score, on top of any others too.
func TestScoreIsMonotone(t *testing.T) {
	d, o := safeDocument()
	best := judge(process, d, nil, o)
	if len(best.With(Unsafe)) != 0 || best.Class != ClassProcess || best.Lost != callsWeight/2 {
		t.Fatalf("%q, %s, %g", best.With(Unsafe), best.Class, best.Lost)
	}
	all, last := d, best.Score
	all.Sightings = slices.Clone(d.Sightings)
	for _, p := range table {
		if p.Weight == 0 {
			continue
		}
		one, single := d, o
		one.Sightings = slices.Clone(d.Sightings)
		unsafely(&one, &single, p.Name)
		r := judge(process, one, nil, single)
		own := p.Counts == OfHostUsers // which are in a namespace of their own here
		if found := slices.Contains(r.With(Unsafe), p.Name); found == own || !own && r.Score >= best.Score {
			t.Errorf("%s: found %v, score %g of %g", p.Name, found, r.Score, best.Score)
		}
		unknown := d
		unknown.Sightings = slices.DeleteFunc(slices.Clone(d.Sightings), func(s isolationprobe.Sighting) bool { return s.Name == p.Name })
		if r := judge(process, unknown, nil, o); p.Name != "root-outside" && (!slices.Contains(r.With(Unknown), p.Name) || r.Score >= best.Score) {
			t.Errorf("%s, unknown: score %g of %g", p.Name, r.Score, best.Score)
		}
		unsafely(&all, &o, p.Name)
		if r := judge(process, all, nil, o); r.Score > last || !own && p.Name != "ns-user" && r.Score == last {
			t.Errorf("with %s besides: %g of %g", p.Name, r.Score, last)
		} else {
			last = r.Score
		}
	}
	d, o = safeDocument()
	for d.Calls.Answered < d.Calls.Tried-25 {
		before := judge(process, d, nil, o).Score
		d.Calls.Answered, d.Calls.Refused = d.Calls.Answered+1, d.Calls.Refused-1
		if after := judge(process, d, nil, o).Score; after >= before || before-after > 0.01 {
			t.Errorf("%d calls: %g after %g", d.Calls.Answered, after, before)
		}
	}
}

func TestClass(t *testing.T) {
	last := 0.0
	for _, class := range []Class{ClassProcess, ClassUserKernel, ClassEmulated, ClassHardware} {
		if ceilings[class] <= last || score(class, 0) != ceilings[class] || score(class, 1e9) < 0 {
			t.Errorf("%s: %g", class, ceilings[class])
		}
		last = ceilings[class]
	}
	for _, c := range []struct {
		name     string
		change   func(seen map[string]*isolationprobe.Sighting, o *outside)
		declared sandbox.Boundary
		kernel   string
		class    Class
	}{
		{"the same boot", func(s map[string]*isolationprobe.Sighting, _ *outside) { s["kernel-boot-id"].Seen = "theirs" }, sandbox.HardwareBoundary, hostKernel, ClassProcess},
		{"counters in between", func(s map[string]*isolationprobe.Sighting, _ *outside) { s["kernel-counters"].Seen = "150 15" }, sandbox.HardwareBoundary, hostKernel, ClassProcess},
		{"found on the host", func(_ map[string]*isolationprobe.Sighting, o *outside) { o.user = new(int) }, sandbox.KernelBoundary, hostKernel, ClassProcess},
		{"nothing is told", func(s map[string]*isolationprobe.Sighting, _ *outside) {
			for _, name := range []string{"kernel-boot-id", "kernel-counters", "kernel-version"} {
				s[name].State = isolationprobe.Unknown
			}
		}, sandbox.HardwareBoundary, unknownKernel, ClassProcess},
		{"the version alone", func(s map[string]*isolationprobe.Sighting, _ *outside) {
			s["kernel-boot-id"].State, s["kernel-version"].Seen = isolationprobe.Unknown, "theirs"
		}, sandbox.HardwareBoundary, hostKernel, ClassProcess},
		{"another kernel", func(map[string]*isolationprobe.Sighting, *outside) {}, sandbox.HardwareBoundary, ownKernel, ClassUserKernel},
		{"another machine", func(s map[string]*isolationprobe.Sighting, _ *outside) {
			s["kernel-machine"].State = isolationprobe.Open
		}, sandbox.KernelBoundary, ownKernel, ClassEmulated},
		{"by hardware", func(s map[string]*isolationprobe.Sighting, _ *outside) {
			s["kernel-machine"].State = isolationprobe.Open
		}, sandbox.HardwareBoundary, ownKernel, ClassHardware},
	} {
		d, o := safeDocument()
		o.user = nil
		seen := map[string]*isolationprobe.Sighting{}
		for i := range d.Sightings {
			seen[d.Sightings[i].Name] = &d.Sightings[i]
		}
		c.change(seen, &o)
		r := judge(sandbox.Info{Boundary: c.declared}, d, nil, o)
		if r.Kernel != c.kernel || r.Class != c.class || (r.Calls.Host == nil) != (c.kernel == unknownKernel) {
			t.Errorf("%s: %s, %s, want %s, %s", c.name, r.Kernel, r.Class, c.kernel, c.class)
		}
	}
}

// TestOwnKernel: what a sandbox may do to a kernel of its own is no finding, and what it
// reaches of the host is one all the same.
func TestOwnKernel(t *testing.T) {
	d, o := safeDocument()
	o.user = nil
	for _, name := range []string{"cap-sys-admin", "write-sysctl", "mounting", "see-file"} {
		unsafely(&d, &o, name)
	}
	r := judge(sandbox.Info{Boundary: sandbox.KernelBoundary}, d, nil, o)
	if got := r.With(Unsafe); !slices.Equal(got, []string{"see-file"}) || *r.Calls.Host != 0 {
		t.Errorf("%q", got)
	}
	o.reached = map[string]bool{"net-loopback": true}
	if r := judge(process, d, nil, o); !slices.Contains(r.With(Unsafe), "net-loopback") {
		t.Error("the host was reached, and the sandbox's word is taken")
	}
}

var update = flag.Bool("update", false, "write the table of docs/lab-isolation.md anew")

const pageName = "../../docs/lab-isolation.md"

// Marks around the table of the page.
const tableBegins, tableEnds = "<!-- table of probes: go test ./lab/isolation -run TestTable -update -->\n", "<!-- end of the table -->\n"

// pageTable is the table as the page has it.
func pageTable() string {
	var b strings.Builder
	var group Group
	for _, p := range table {
		if p.Group != group {
			group = p.Group
			fmt.Fprintf(&b, "\n### %s\n\n| probe | weight | counts | what is tried | safe |\n|---|---|---|---|---|\n", strings.ToUpper(string(group[:1]))+string(group[1:]))
		}
		b.WriteString(p.row() + "\n")
	}
	return b.String() + "\n"
}

// TestTable: the page has the table, the classes and the function that the code has.
func TestTable(t *testing.T) {
	page, err := os.ReadFile(pageName)
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, p := range Probes() {
		if names[p.Name] || p.Asks == "" || p.Safe == "" || p.Group == "" || p.judge == nil {
			t.Errorf("%+v", p)
		}
		names[p.Name] = true
	}
	if len(names) < 80 {
		t.Errorf("%d probes", len(names))
	}
	head, rest, begins := strings.Cut(string(page), tableBegins)
	has, tail, ends := strings.Cut(rest, tableEnds)
	switch {
	case !begins || !ends:
		t.Errorf("%s has no place for the table", pageName)
	case *update:
		if err := os.WriteFile(pageName, []byte(head+tableBegins+pageTable()+tableEnds+tail), 0o644); err != nil {
			t.Fatal(err)
		}
	case has != pageTable():
		t.Errorf("%s has another table than the code: run this test with -update", pageName)
	}
	for class, most := range ceilings {
		if line := fmt.Sprintf("| `%s` | %.2f |", class, most); !strings.Contains(head, line) {
			t.Errorf("%s has no line %s", pageName, line)
		}
	}
	if !strings.Contains(head, fmt.Sprintf("/%d)", scale)) || !strings.Contains(head, fmt.Sprintf("%d·", callsWeight)) {
		t.Errorf("%s has another function than the code", pageName)
	}
}

// row is a probe as the page has it.
func (p Probe) row() string {
	return fmt.Sprintf("| `%s` | %g | %s | %s | %s |", p.Name, p.Weight, p.Counts, p.Asks, p.Safe)
}
