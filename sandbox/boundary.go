package sandbox

import (
	"fmt"
	"strings"
)

// Boundary is what stands between code inside a sandbox and its host. Higher
// values are stronger; a driver gives exactly one.
type Boundary int

const (
	// AnyBoundary, the zero value, is the wish of a caller that states none. No
	// driver gives it.
	AnyBoundary Boundary = iota
	// ProcessBoundary: the guest's processes run on the host's kernel, confined
	// by namespaces, cgroups, system call filters and the like.
	ProcessBoundary
	// KernelBoundary: the guest's system calls are answered by a kernel of its
	// own in user space; the host's kernel sees only that kernel's calls.
	KernelBoundary
	// HardwareBoundary: the guest has a kernel of its own behind hardware
	// virtualization.
	HardwareBoundary
)

var boundaryNames = [...]string{"any", "process", "kernel", "hardware"}

func (b Boundary) String() string {
	if b < 0 || int(b) >= len(boundaryNames) {
		return fmt.Sprintf("boundary(%d)", int(b))
	}
	return boundaryNames[b]
}

// Boundaries lists the boundaries that a driver can give, weakest first.
func Boundaries() []Boundary {
	return []Boundary{ProcessBoundary, KernelBoundary, HardwareBoundary}
}

// ParseBoundary reads process, kernel, hardware or any, in any case; the empty
// string is any.
func ParseBoundary(s string) (Boundary, error) {
	if s == "" {
		return AnyBoundary, nil
	}
	for i, name := range boundaryNames {
		if strings.EqualFold(s, name) {
			return Boundary(i), nil
		}
	}
	return AnyBoundary, &Error{Class: Invalid, Field: "isolation",
		Reason: fmt.Sprintf("%.40q is not a boundary", s), Remedy: "use one of process, kernel, hardware"}
}

// MarshalText makes boundaries read as their names in JSON.
func (b Boundary) MarshalText() ([]byte, error) { return []byte(b.String()), nil }

// UnmarshalText is the inverse of MarshalText.
func (b *Boundary) UnmarshalText(text []byte) error {
	parsed, err := ParseBoundary(string(text))
	if err != nil {
		return err
	}
	*b = parsed
	return nil
}
