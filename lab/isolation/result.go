package isolation

import (
	"fmt"
	"strings"

	"aether/internal/host/isolationprobe"
	"aether/lab"
	"aether/sandbox"
)

// Result is what was found out about the sandboxes of one driver.
type Result struct {
	Driver string `json:"driver"`
	// Declared is the driver's word, Class what was found.
	Declared sandbox.Boundary `json:"declared_boundary"`
	Class    Class            `json:"class"`
	// Kernel is whose kernel answers: host, own or unknown.
	Kernel string `json:"kernel"`
	// User is who the program was inside.
	User string `json:"user"`
	// Score is from 0 to 1; Lost is the weight that it fell by.
	Score    float64   `json:"score"`
	Lost     float64   `json:"lost"`
	Calls    Calls     `json:"system_calls"`
	Findings []Finding `json:"findings"`
}

// Calls counts the system call table of the kernel that answers.
type Calls struct {
	Tried    int `json:"tried"`
	Answered int `json:"answered"`
	Refused  int `json:"refused"`
	Absent   int `json:"absent"`
	// Host is how many of the host's kernel code inside reaches itself; it is absent where it
	// is not known whose kernel answers.
	Host *int `json:"host_reachable,omitempty"`
}

// With gives the names of the probes of a status.
func (r Result) With(status Status) (names []string) {
	for _, f := range r.Findings {
		if f.Status == status {
			names = append(names, f.Name)
		}
	}
	return names
}

var _ lab.Findings = Result{}

// Text implements lab.Findings.
func (r Result) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: isolation %.2f, class %s, the kernel that answers: %s\n", r.Driver, r.Score, r.Class, r.Kernel)
	fmt.Fprintf(&b, "  system calls: %d of %d answered, %d refused, %d absent\n", r.Calls.Answered, r.Calls.Tried, r.Calls.Refused, r.Calls.Absent)
	for _, f := range r.Findings {
		if f.Status != Safe && f.Weight > 0 {
			fmt.Fprintf(&b, "  %-22s %-8s %3g  %s\n", f.Name, f.Status, f.Weight, f.Seen)
		}
	}
	return b.String()
}

// judge makes a Result of all that was seen.
func judge(info sandbox.Info, d isolationprobe.Document, more []isolationprobe.Sighting, o outside) Result {
	seen := map[string]isolationprobe.Sighting{}
	for _, s := range append(d.Sightings, more...) {
		seen[s.Name] = s
	}
	r := Result{Driver: info.Name, Declared: info.Boundary, Kernel: whose(seen, o)}
	r.Class = classOf(r.Kernel, seen["kernel-machine"].State == isolationprobe.Open, info.Boundary)
	r.Findings = findings(seen, o, r.Kernel)
	r.Lost = lost(r.Findings, d.Calls, r.Kernel)
	r.Score = score(r.Class, r.Lost)
	r.Calls = Calls{Tried: d.Calls.Tried, Answered: d.Calls.Answered, Refused: d.Calls.Refused, Absent: d.Calls.Absent}
	switch reached := 0; r.Kernel {
	case hostKernel:
		r.Calls.Host = &r.Calls.Answered
	case ownKernel:
		r.Calls.Host = &reached
	}
	return r
}
