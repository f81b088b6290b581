package isolation

import (
	"fmt"
	"slices"
	"strings"

	"aether/internal/host/isolationprobe"
)

// Status is the verdict on a probe. Unknown is never taken for safe.
type Status string

const (
	Safe    Status = "safe"
	Unsafe  Status = "unsafe"
	Unknown Status = "unknown"
)

// Finding is the verdict on one probe and what it rests on, or why there is none.
type Finding struct {
	Name   string  `json:"name"`
	Group  Group   `json:"group"`
	Weight float64 `json:"weight"`
	Status Status  `json:"status"`
	Seen   string  `json:"seen,omitempty"`
}

// judgment makes a verdict of what was seen inside and what is known outside.
type judgment func(isolationprobe.Sighting, outside) (Status, string)

// outside is what the host knows that the program inside does not.
type outside struct {
	// values are the host's own, by the name of the probe that tells the sandbox's.
	values map[string]string
	// environment has the hashes of variables that no sandbox should have.
	environment map[string]bool
	// before and after are the host's counters around the run.
	before, after counted
	// reached are canaries that were touched, by the names of the probes that do so.
	reached map[string]bool
	// user is who the program is on the host, or absent where it is not among its processes.
	user *int
}

type counted struct{ switches, forks int64 }

func (c counted) atMost(d counted) bool { return c.switches <= d.switches && c.forks <= d.forks }

func parseCounted(text string) (c counted, ok bool) {
	n, err := fmt.Sscan(text, &c.switches, &c.forks)
	return c, err == nil && n == 2
}

// isClosed is the verdict on what was tried.
func isClosed(s isolationprobe.Sighting, o outside) (Status, string) {
	switch {
	case o.reached[s.Name]:
		return Unsafe, "the host was reached"
	case s.State == isolationprobe.Closed:
		return Safe, s.Seen
	case s.State == isolationprobe.Open:
		return Unsafe, s.Seen
	}
	return Unknown, s.Seen
}

// differs is the verdict on what must not be the host's.
func differs(s isolationprobe.Sighting, o outside) (Status, string) {
	own, known := o.values[s.Name]
	switch {
	case s.State == isolationprobe.Closed:
		return Safe, s.Seen
	case s.State != isolationprobe.Value:
		return Unknown, s.Seen
	case !known:
		return Unknown, "the host's own is not known"
	case s.Seen == own:
		return Unsafe, "the host's: " + s.Seen
	}
	return Safe, s.Seen
}

func judgeCounters(s isolationprobe.Sighting, o outside) (Status, string) {
	c, ok := parseCounted(s.Seen)
	switch {
	case s.State != isolationprobe.Value || !ok:
		return Unknown, s.Seen
	case o.before.atMost(c) && c.atMost(o.after):
		return Unsafe, "the host's: " + s.Seen
	}
	return Safe, s.Seen
}

func judgeMachine(s isolationprobe.Sighting, _ outside) (Status, string) {
	if s.State == isolationprobe.Open {
		return Safe, s.Seen
	}
	return Unknown, s.Seen
}

func judgeEnvironment(s isolationprobe.Sighting, o outside) (Status, string) {
	if s.State != isolationprobe.Value {
		return Unknown, s.Seen
	}
	found := slices.DeleteFunc(strings.Fields(s.Seen), func(hash string) bool { return !o.environment[hash] })
	if len(found) > 0 {
		return Unsafe, fmt.Sprintf("%d variables of the host's program", len(found))
	}
	return Safe, "none of the host's"
}

// judgeRoot believes the host's own table of processes only.
func judgeRoot(s isolationprobe.Sighting, o outside) (Status, string) {
	switch {
	case o.user == nil:
		return Unknown, "it was not found among the host's processes; " + s.Seen
	case *o.user == 0:
		return Unsafe, "it is root on the host"
	}
	return Safe, fmt.Sprintf("it is user %d on the host", *o.user)
}

// Whose kernel answers.
const (
	hostKernel    = "host"
	ownKernel     = "own"
	unknownKernel = "unknown"
)

// whose tells whose kernel answers. Any sign that it is the host's is enough; that it is
// another takes a sign too.
func whose(seen map[string]isolationprobe.Sighting, o outside) string {
	status := func(name string) Status {
		s, _ := find(name).judge(seen[name], o)
		return s
	}
	id, counters, version := status("kernel-boot-id"), status("kernel-counters"), status("kernel-version")
	switch {
	case o.user != nil || id == Unsafe || counters == Unsafe || id == Unknown && version == Unsafe:
		return hostKernel
	case id == Safe || counters == Safe:
		return ownKernel
	}
	return unknownKernel
}

func find(name string) Probe {
	return table[slices.IndexFunc(table, func(p Probe) bool { return p.Name == name })]
}

// findings judges every row of the table.
func findings(seen map[string]isolationprobe.Sighting, o outside, kernel string) []Finding {
	users, _ := find("ns-user").judge(seen["ns-user"], o)
	list := make([]Finding, 0, len(table))
	for _, p := range table {
		f := Finding{Name: p.Name, Group: p.Group, Weight: p.Weight}
		s, told := seen[p.Name]
		if s.Name = p.Name; !told {
			s = isolationprobe.Sighting{Name: p.Name, State: isolationprobe.Unknown, Seen: "the program did not say"}
		}
		f.Status, f.Seen = p.judge(s, o)
		switch {
		case p.Group == Kernel && p.Weight == 0:
			if p.Name == "kernel-machine" && kernel != ownKernel {
				f.Status, f.Seen = Unknown, "only a kernel of its own is asked"
			}
		case p.Counts != Always && kernel == ownKernel && f.Status != Safe:
			f.Status, f.Seen = Safe, "of a kernel of its own: "+f.Seen
		case p.Counts == OfHostUsers && users == Safe && f.Status == Unsafe:
			f.Status, f.Seen = Safe, "in a user namespace of its own: "+f.Seen
		}
		list = append(list, f)
	}
	return list
}
