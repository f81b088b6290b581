package access

import (
	"math"

	"aether/sandbox"
)

// Quota is how much a tenant may have at once. What is nil is not bounded; zero is
// none at all.
type Quota struct {
	Sandboxes   *int64   `json:"sandboxes,omitempty"`
	MemoryBytes *int64   `json:"memory_bytes,omitempty"`
	CPUs        *float64 `json:"cpus,omitempty"`
	DiskBytes   *int64   `json:"disk_bytes,omitempty"`
	Snapshots   *int64   `json:"snapshots,omitempty"`
	// Secrets is bounded in any case: nil is DefaultSecrets.
	Secrets *int64 `json:"secrets,omitempty"`
	// CreatesPerMinute is how many sandboxes may be made a minute, forks included. A
	// tenant that has made none for a minute may make so many at once.
	CreatesPerMinute *float64 `json:"creates_per_minute,omitempty"`
}

// DefaultSecrets is how many secrets a tenant may have whose quota does not say.
const DefaultSecrets = 100

// Use is what of a quota something takes up.
type Use struct {
	Sandboxes   int64 `json:"sandboxes"`
	MemoryBytes int64 `json:"memory_bytes"`
	MilliCPUs   int64 `json:"milli_cpus"` // whole numbers, so that sums are exact
	DiskBytes   int64 `json:"disk_bytes"`
	Snapshots   int64 `json:"snapshots"`
	Secrets     int64 `json:"secrets"`
}

// UseOf is what a running sandbox takes up: its limits, whatever it does with them.
func UseOf(spec sandbox.Spec) Use {
	l := spec.Limits
	return Use{Sandboxes: 1, MemoryBytes: l.MemoryBytes, MilliCPUs: milli(l.CPUs), DiskBytes: l.DiskBytes}
}

// Times is what n of the same take up.
func (u Use) Times(n int) Use {
	all := u.amounts()
	for i, one := range all {
		if all[i] = one * int64(n); n > 0 && one > math.MaxInt64/int64(n) {
			all[i] = math.MaxInt64 // more than anybody has; a sum that overflowed might seem little
		}
	}
	return all.use()
}

func milli(cpus float64) int64 { return int64(math.Round(cpus * 1000)) }

// DiskQuota is the field of a refusal for want of disk.
const DiskQuota = "quota.disk_bytes"

// kinds are the names of what is counted, in the order of amounts.
var kinds = [...]string{"sandboxes", "memory_bytes", "cpus", "disk_bytes", "snapshots", "secrets"}

type amounts [len(kinds)]int64

func (u Use) amounts() amounts {
	return amounts{u.Sandboxes, u.MemoryBytes, u.MilliCPUs, u.DiskBytes, u.Snapshots, u.Secrets}
}

func (a amounts) use() Use { return Use{a[0], a[1], a[2], a[3], a[4], a[5]} }

// bounds are what a quota allows of each kind; math.MaxInt64 is any amount.
func (q Quota) bounds() amounts {
	var bounds amounts
	for i, bound := range [len(kinds)]*int64{q.Sandboxes, q.MemoryBytes, nil, q.DiskBytes, q.Snapshots, q.Secrets} {
		bounds[i] = math.MaxInt64
		if bound != nil {
			bounds[i] = *bound
		}
	}
	if q.CPUs != nil {
		bounds[2] = milli(*q.CPUs)
	}
	return bounds
}

// countable refuses what a quota bounds and a Spec leaves open. Errors: Denied.
func (q Quota) countable(l sandbox.Limits) error {
	for _, c := range []struct {
		field string
		open  bool
	}{
		{"limits.memory", q.MemoryBytes != nil && l.MemoryBytes == 0},
		{"limits.cpus", q.CPUs != nil && l.CPUs == 0},
		{"limits.disk", q.DiskBytes != nil && l.DiskBytes == 0},
	} {
		if c.open {
			return denied(c.field, "state a limit", "the tenant has a quota of it, of which every sandbox takes a stated part")
		}
	}
	return nil
}

// validate checks what an operator wrote. Errors: Invalid.
func (q Quota) validate(path string) error {
	for name, bound := range map[string]*int64{"sandboxes": q.Sandboxes, "memory_bytes": q.MemoryBytes, "disk_bytes": q.DiskBytes, "snapshots": q.Snapshots, "secrets": q.Secrets} {
		if bound != nil && *bound < 0 {
			return sandbox.Invalidf(path+"."+name, "%d is negative", *bound)
		}
	}
	for name, bound := range map[string]*float64{"cpus": q.CPUs, "creates_per_minute": q.CreatesPerMinute} {
		if bound != nil && !(*bound >= 0 && *bound <= 1e6) {
			return sandbox.Invalidf(path+"."+name, "%v is not between 0 and 1000000", *bound)
		}
	}
	return nil
}
