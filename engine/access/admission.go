package access

import (
	"errors"
	"fmt"
	"sync"

	"aether/sandbox"
)

const (
	// defaultReserve is what sandboxes leave to the host.
	defaultReserve = 256 << 20
	// defaultClaim is what a sandbox is taken to need while it starts. Its limit is no
	// measure: thousands that are idle use a small part of theirs.
	defaultClaim = 32 << 20
)

// HostLimits are what sandboxes leave of the host, whoever's they are. Nil is a
// default.
type HostLimits struct {
	// MemoryReserveBytes is how much memory must be available beside a new sandbox.
	MemoryReserveBytes *int64 `json:"memory_reserve_bytes,omitempty"`
	// MemoryClaimBytes is how much a sandbox is taken to need while it starts, if its
	// limit is not less.
	MemoryClaimBytes *int64 `json:"memory_claim_bytes,omitempty"`
	// UnusedDiskBytes is how much of the disk may be taken by what nothing refers to any
	// more: over that, it is removed. Nil leaves it until somebody prunes.
	UnusedDiskBytes *int64 `json:"unused_disk_bytes,omitempty"`
}

func (h HostLimits) validate(path string) error {
	for name, bytes := range map[string]*int64{"memory_reserve_bytes": h.MemoryReserveBytes, "memory_claim_bytes": h.MemoryClaimBytes, "unused_disk_bytes": h.UnusedDiskBytes} {
		if bytes != nil && *bytes < 0 {
			return sandbox.Invalidf(path+"."+name, "%d is negative", *bytes)
		}
	}
	return nil
}

// Admission refuses sandboxes that the host has no memory for.
type Admission struct {
	reserve, claim int64
	available      func() (int64, error)

	mu       sync.Mutex
	starting int64 // claimed by sandboxes that the host does not show yet
}

// NewAdmission is one for this host.
func NewAdmission(limits HostLimits) *Admission {
	a := &Admission{reserve: defaultReserve, claim: defaultClaim, available: available}
	if limits.MemoryReserveBytes != nil {
		a.reserve = *limits.MemoryReserveBytes
	}
	if limits.MemoryClaimBytes != nil {
		a.claim = *limits.MemoryClaimBytes
	}
	return a
}

// Admit lets so many sandboxes of a memory limit start, zero being none; done is to be
// called when they have started or failed to. A host that cannot say what is available
// admits all. Errors: Exhausted, with a time to wait.
func (a *Admission) Admit(limit int64, n int) (done func(), err error) {
	free, err := a.available()
	if errors.Is(err, errors.ErrUnsupported) {
		return func() {}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("access: memory of the host: %w", err)
	}
	claim := a.claim
	if limit > 0 {
		claim = min(claim, limit)
	}
	claim *= int64(n)
	a.mu.Lock()
	defer a.mu.Unlock()
	if left := free - a.reserve - a.starting; left < claim {
		return nil, exhausted("", roomWait, false, "the host has %d MiB of memory available, of which %d MiB are kept for itself and for sandboxes that are starting", free>>20, (a.reserve+a.starting)>>20)
	}
	a.starting += claim
	return sync.OnceFunc(func() { a.started(claim) }), nil
}

func (a *Admission) started(claim int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.starting -= claim
}
