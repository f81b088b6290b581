package sandbox

import (
	"cmp"
	"maps"
	"path"
	"strings"
	"time"
)

// HostImage is the image that every Spec without one means: the host's own
// system, read-only, without its homes and secrets.
const HostImage = "host"

// Spec is what a sandbox is asked to be. The zero value is a good sandbox: the
// host's system, no network, the driver's own bounds.
type Spec struct {
	// ID names the sandbox: lower-case letters, digits and dashes, at most 64.
	// Empty means that the driver mints a random one.
	ID string `json:"id,omitempty"`
	// Image is "host", a directory, an OCI layout, a docker archive or a
	// registry reference. Empty means HostImage.
	Image string `json:"image,omitempty"`
	// Isolation is the weakest boundary that will do.
	Isolation Boundary `json:"isolation,omitempty"`

	// Command holds defaults for every command that is started inside.
	Command CommandDefaults `json:"command,omitzero"`
	// Limits bound what the sandbox may use. Zero means the driver's default.
	Limits Limits `json:"limits,omitzero"`
	// Network is what the sandbox may reach. The zero value is nothing at all.
	Network Network `json:"network,omitzero"`
	// Mounts are host directories and files shown inside.
	Mounts []Mount `json:"mounts,omitempty"`
	// Timeouts bound the sandbox's life.
	Timeouts Timeouts `json:"timeouts,omitzero"`
	// Metadata is the caller's own and is not interpreted.
	Metadata map[string]string `json:"metadata,omitempty"`
}

// CommandDefaults are used for commands that do not say otherwise.
type CommandDefaults struct {
	Env     map[string]string `json:"env,omitempty"`
	WorkDir string            `json:"workdir,omitempty"`
	// User is a name of the image or a number; empty means the image's own.
	User string `json:"user,omitempty"`
}

// With gives what commands have where others are stated over these.
func (c CommandDefaults) With(over CommandDefaults) CommandDefaults {
	if len(over.Env) > 0 {
		env := map[string]string{}
		maps.Copy(env, c.Env)
		maps.Copy(env, over.Env)
		c.Env = env
	}
	c.User, c.WorkDir = cmp.Or(over.User, c.User), cmp.Or(over.WorkDir, c.WorkDir)
	return c
}

// Limits bound a sandbox. A zero field is the driver's default; a driver that
// cannot hold a limit that is set refuses the Spec.
type Limits struct {
	MemoryBytes int64   `json:"memory_bytes,omitempty"`
	CPUs        float64 `json:"cpus,omitempty"`
	Processes   int64   `json:"processes,omitempty"`
	// DiskBytes bounds what the sandbox may write to its own layer.
	DiskBytes int64 `json:"disk_bytes,omitempty"`
	// DiskBacked keeps the writable layer on disk instead of in memory.
	DiskBacked bool `json:"disk_backed,omitempty"`
	// DiskReadRate and DiskWriteRate bound how many bytes a second the sandbox reads
	// from and writes to each disk. What it finds or leaves in memory is not counted.
	DiskReadRate  int64 `json:"disk_read_bytes_per_second,omitempty"`
	DiskWriteRate int64 `json:"disk_write_bytes_per_second,omitempty"`
}

// Mount shows a host path inside the sandbox, read-only unless Writable.
type Mount struct {
	Source   string `json:"source"`
	Target   string `json:"target"`
	Writable bool   `json:"writable,omitempty"`
}

// Timeouts bound a sandbox in time. Zero means unbounded.
type Timeouts struct {
	// Lifetime ends the sandbox, whatever it does, that long after creation.
	Lifetime time.Duration `json:"lifetime_ns,omitempty"`
}

const (
	// MinMemory is the least memory limit that any driver accepts.
	MinMemory = 1 << 20
	// MinDisk is the least disk limit that any driver accepts.
	MinDisk = 64 << 10
	// MinDiskRate is the least rate that any driver accepts: with less, a program
	// takes minutes to be loaded.
	MinDiskRate = 64 << 10

	maxID = 64

	maxMetadata  = 64
	maxMounts    = 64
	maxEnv       = 1024
	maxFieldSize = 32 << 10
)

// IsName says whether text can name a sandbox, a template or a group: lower-case
// letters, digits and dashes, the first of them no dash, at most so many.
func IsName(text string, most int) bool {
	if text == "" || len(text) > most || text[0] == '-' {
		return false
	}
	for _, c := range []byte(text) {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return false
		}
	}
	return true
}

// Validate checks everything that can be checked without a host. Every error is
// Invalid and names the field.
func (s Spec) Validate() error {
	checks := []func() error{s.validateIdentity, s.validateCommand, s.Limits.validate, s.Network.validate, s.validateMounts, s.validateMetadata}
	for _, check := range checks {
		if err := check(); err != nil {
			return err
		}
	}
	if s.Timeouts.Lifetime < 0 {
		return Invalidf("timeouts.lifetime", "%v is negative", s.Timeouts.Lifetime)
	}
	return nil
}

func (s Spec) validateIdentity() error {
	if s.ID != "" && !IsName(s.ID, maxID) {
		return Invalidf("id", "%.80q must be lower-case letters, digits and dashes, at most 64", s.ID)
	}
	if s.Isolation < AnyBoundary || s.Isolation > HardwareBoundary {
		return Invalidf("isolation", "%v is not a boundary", s.Isolation)
	}
	return validText("image", s.Image)
}

func (s Spec) validateCommand() error {
	c := s.Command
	if len(c.Env) > maxEnv {
		return Invalidf("command.env", "%d variables are more than %d", len(c.Env), maxEnv)
	}
	for name, value := range c.Env {
		if err := ValidEnv(name, value); err != nil {
			return err
		}
	}
	if c.WorkDir != "" && !path.IsAbs(c.WorkDir) {
		return Invalidf("command.workdir", "%.80q is not an absolute path", c.WorkDir)
	}
	if err := validText("command.workdir", c.WorkDir); err != nil {
		return err
	}
	return validText("command.user", c.User)
}

// ValidEnv checks one environment variable.
func ValidEnv(name, value string) error {
	if name == "" || strings.ContainsAny(name, "=\x00") {
		return Invalidf("env", "%.80q is not a variable's name", name)
	}
	if strings.ContainsRune(value, 0) || len(name)+len(value) > maxFieldSize {
		return Invalidf("env", "the value of %.80q holds a zero byte or is over %d bytes", name, maxFieldSize)
	}
	return nil
}

func (l Limits) validate() error {
	switch {
	case l.MemoryBytes < 0 || l.MemoryBytes > 0 && l.MemoryBytes < MinMemory:
		return Invalidf("limits.memory", "%d bytes is less than the least limit, %d", l.MemoryBytes, MinMemory)
	case l.CPUs < 0 || l.CPUs != l.CPUs || l.CPUs > 0 && l.CPUs < 0.01 || l.CPUs > 4096:
		return Invalidf("limits.cpus", "%v is not between 0.01 and 4096", l.CPUs)
	case l.Processes < 0 || l.Processes > 4<<20:
		return Invalidf("limits.processes", "%d is not between 1 and %d", l.Processes, 4<<20)
	case l.DiskBytes < 0 || l.DiskBytes > 0 && l.DiskBytes < MinDisk:
		return Invalidf("limits.disk", "%d bytes is less than the least limit, %d", l.DiskBytes, MinDisk)
	case l.DiskReadRate < 0 || l.DiskReadRate > 0 && l.DiskReadRate < MinDiskRate:
		return Invalidf("limits.disk_read_rate", "%d bytes a second is less than the least limit, %d", l.DiskReadRate, MinDiskRate)
	case l.DiskWriteRate < 0 || l.DiskWriteRate > 0 && l.DiskWriteRate < MinDiskRate:
		return Invalidf("limits.disk_write_rate", "%d bytes a second is less than the least limit, %d", l.DiskWriteRate, MinDiskRate)
	}
	return nil
}

func (s Spec) validateMounts() error {
	if len(s.Mounts) > maxMounts {
		return Invalidf("mounts", "%d are more than %d", len(s.Mounts), maxMounts)
	}
	for _, m := range s.Mounts {
		if err := m.validate(); err != nil {
			return err
		}
	}
	return nil
}

func (m Mount) validate() error {
	for _, p := range []string{m.Source, m.Target} {
		if err := validText("mounts", p); err != nil {
			return err
		}
		if !path.IsAbs(p) {
			return Invalidf("mounts", "%.80q is not an absolute path", p)
		}
	}
	if path.Clean(m.Target) == "/" {
		return Invalidf("mounts", "the target / would hide the whole image")
	}
	return nil
}

func (s Spec) validateMetadata() error {
	if len(s.Metadata) > maxMetadata {
		return Invalidf("metadata", "%d entries are more than %d", len(s.Metadata), maxMetadata)
	}
	for k, v := range s.Metadata {
		if k == "" || len(k)+len(v) > maxFieldSize {
			return Invalidf("metadata", "the entry %.40q is empty or over %d bytes", k, maxFieldSize)
		}
	}
	return nil
}

func validText(field, s string) error {
	if strings.ContainsRune(s, 0) || len(s) > maxFieldSize {
		return Invalidf(field, "it holds a zero byte or is over %d bytes", maxFieldSize)
	}
	return nil
}
