package sandbox

import (
	"context"
	"io"
	"net"
	"time"
)

// Driver makes sandboxes on one isolation system. See the package comment for
// the lifecycle that every implementation keeps.
type Driver interface {
	// Info says what this driver is. It neither blocks nor fails.
	Info() Info
	// Probe finds out within two seconds whether sandboxes can be made on this
	// host. It changes nothing.
	Probe(context.Context) Report
	// Create makes a sandbox, or leaves nothing behind. Errors: Invalid for a
	// Spec that is wrong, Unsupported for one that this driver cannot enforce,
	// NotFound for an image that does not exist, Unavailable where Probe would
	// have said so, Exhausted where the host has no room, Timeout.
	Create(context.Context, Spec) (Instance, error)
}

// Maker is a driver of a build that nobody has asked for yet: its canonical name,
// by which it can be chosen, and what makes it.
type Maker struct {
	Name string
	New  func() Driver
	// One makes it for a program that makes one sandbox and ends with it: a driver that
	// gets nothing ready for a next one. Nil where New makes that too.
	One func() Driver
}

// Instance is one living sandbox.
type Instance interface {
	// ID is the identity that the Spec gave or the driver minted.
	ID() string
	// Dial connects to the guest service. Errors: NotFound once destroyed.
	Dial(context.Context) (net.Conn, error)
	// Stats says what the sandbox uses now. Errors: NotFound once destroyed.
	Stats(context.Context) (Stats, error)
	// Wait blocks until the sandbox has ended and says why.
	Wait(context.Context) (Exit, error)
	// Destroy ends the sandbox and everything in it. Idempotent.
	Destroy(context.Context) error
}

// Info describes a driver.
type Info struct {
	// Name is the canonical name of the system, as in package profile.
	Name string `json:"name"`
	// Boundary is what every sandbox of this driver has around it.
	Boundary Boundary `json:"boundary"`
	// Verbs are what those sandboxes can do beyond the least.
	Verbs Verbs `json:"verbs"`
	// Networks are the modes that they can have beside none.
	Networks Networks `json:"networks"`
}

// Report is a host's answer to whether a driver can run here. A driver that can
// run may still have Gaps: what this host lacks and what that costs.
type Report struct {
	Usable bool `json:"usable"`
	// Version of the system found, empty if there is none to find.
	Version string `json:"version,omitempty"`
	// Reason says why it cannot run. Empty if and only if Usable.
	Reason string `json:"reason,omitempty"`
	// Remedy says what would mend it, or is empty where nothing would.
	Remedy string `json:"remedy,omitempty"`
	// Gaps are what a usable driver has to do without on this host.
	Gaps []Gap `json:"gaps,omitempty"`
}

// Gap is a facility that a host lacks, what its lack costs, and what mends it.
type Gap struct {
	Missing string `json:"missing"`
	Cost    string `json:"cost"`
	Remedy  string `json:"remedy,omitempty"`
}

// Err turns the report of an unusable driver into the error that Create gives.
func (r Report) Err(driver string) error {
	if r.Usable {
		return nil
	}
	return &Error{Class: Unavailable, Op: driver, Reason: r.Reason, Remedy: r.Remedy}
}

// Stats is what a sandbox uses. A nil field is not known to the driver.
type Stats struct {
	MemoryBytes     *int64         `json:"memory_bytes,omitempty"`
	MemoryPeakBytes *int64         `json:"memory_peak_bytes,omitempty"`
	CPUTime         *time.Duration `json:"cpu_time_ns,omitempty"`
	Processes       *int64         `json:"processes,omitempty"`
	// DiskBytes is what the sandbox has written, DiskFreeBytes what it still may.
	DiskBytes     *int64 `json:"disk_bytes,omitempty"`
	DiskFreeBytes *int64 `json:"disk_free_bytes,omitempty"`
	// OOMKills counts processes that were killed at the memory limit, and
	// ForksDenied those that the limit on processes kept from being made.
	OOMKills    *int64 `json:"oom_kills,omitempty"`
	ForksDenied *int64 `json:"forks_denied,omitempty"`
}

// Reached names the limits that the sandbox has run into: memory, processes,
// disk.
func (s Stats) Reached() []string {
	var list []string
	for _, limit := range []struct {
		name string
		hit  bool
	}{
		{"memory", s.OOMKills != nil && *s.OOMKills > 0},
		{"processes", s.ForksDenied != nil && *s.ForksDenied > 0},
		{"disk", s.DiskFreeBytes != nil && *s.DiskFreeBytes < diskFull},
	} {
		if limit.hit {
			list = append(list, limit.name)
		}
	}
	return list
}

// diskFull is so little room that the next write of any size fails.
const diskFull = 4096

// Cause says why a sandbox ended.
type Cause string

const (
	// Destroyed on request.
	Destroyed Cause = "destroyed"
	// Expired: its lifetime was over.
	Expired Cause = "expired"
	// OutOfMemory: the memory limit was reached and the sandbox itself was killed.
	OutOfMemory Cause = "out_of_memory"
	// Crashed: its init, monitor or machine ended without being asked to.
	Crashed Cause = "crashed"
	// Stopped: the engine that held it was stopped, and it was not made to outlive that
	// or could not be kept; Detail says which.
	Stopped Cause = "stopped"
	// Lost: the engine that held it was killed, or what was kept of it is gone.
	Lost Cause = "lost"
)

// Exit is how a sandbox ended.
type Exit struct {
	Cause  Cause  `json:"cause"`
	Detail string `json:"detail,omitempty"`
}

// Reaper is implemented by drivers whose sandboxes leave something that the
// kernel does not remove when the whole program is killed. Reap removes what
// dead programs left, never what belongs to a living one, and says how much.
type Reaper interface {
	Reap(context.Context) (int, error)
}

// Explainer is a Driver that can print how it would set a sandbox and a command
// in it up, down to the system calls, without doing so.
type Explainer interface {
	Explain(ctx context.Context, w io.Writer, spec Spec, command []string) error
}

// Closer is a Driver that holds something as long as the program lives. Close
// ends every sandbox of the driver and gives all of it back; it is idempotent,
// and no sandbox can be made afterwards.
type Closer interface {
	Close(context.Context) error
}
