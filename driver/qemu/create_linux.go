package qemu

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"os"
	"strings"
	"time"

	"aether/guest/pid1"
	"aether/image"
	"aether/internal/host/cgroup"
	"aether/sandbox"
)

const (
	mebibyte      = 1 << 20
	defaultMemory = 512 * mebibyte
	// leastMemory is what a kernel, its modules and the guest service need to get
	// as far as running a command.
	leastMemory = 128 * mebibyte
	// mostMemory and mostCPUs are what the kind of machine can have.
	mostMemory = 1 << 40
	mostCPUs   = 255
	// bootTime is how long a machine may take until its guest service answers, on
	// the slowest host: emulated, or in a machine that is itself emulated.
	bootTime = 3 * time.Minute
	// overhead is what QEMU may use beside the guest's memory.
	overhead = 512 * mebibyte
)

// Create implements sandbox.Driver.
func (d *Driver) Create(ctx context.Context, spec sandbox.Spec) (sandbox.Instance, error) {
	i, err := d.create(ctx, spec)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", Name, err)
	}
	return i, nil
}

func (d *Driver) create(ctx context.Context, spec sandbox.Spec) (*instance, error) {
	if err := spec.Validate(); err != nil {
		return nil, err
	}
	e, err := d.open()
	if err != nil {
		return nil, err
	}
	if err := e.accepts(spec); err != nil {
		return nil, err
	}
	root, err := e.images.Resolve(ctx, spec.Image, nil)
	if err != nil {
		return nil, err
	}
	return e.create(ctx, spec, root)
}

// accepts refuses what cannot be enforced here.
func (e *engine) accepts(spec sandbox.Spec) error {
	unsupported := func(field, reason, remedy string) error {
		return &sandbox.Error{Class: sandbox.Unsupported, Field: field, Reason: reason, Remedy: remedy}
	}
	switch {
	case spec.Isolation > e.accel.boundary:
		return unsupported("isolation", "without KVM, QEMU gives a "+e.accel.boundary.String()+" boundary", "use a host where KVM works: see `aether doctor`")
	case spec.Network.Mode != sandbox.NoNetwork:
		return unsupported("network.mode", "machines have no network card yet", "use none")
	case len(spec.Mounts) > 0:
		return unsupported("mounts", "machines show no host directories yet", "copy files through the guest service")
	case spec.Limits.DiskBacked:
		return unsupported("limits.disk_backed", "what a machine writes is kept in its memory", "give it more memory")
	case spec.Limits.MemoryBytes > 0 && spec.Limits.MemoryBytes < leastMemory:
		return unsupported("limits.memory", fmt.Sprintf("%d bytes is too little for a kernel of its own", spec.Limits.MemoryBytes),
			fmt.Sprintf("give it at least %d", int64(leastMemory)))
	case spec.Limits.MemoryBytes > mostMemory || spec.Limits.CPUs > mostCPUs:
		return unsupported("limits", fmt.Sprintf("a machine has at most %d bytes of memory and %d processors", int64(mostMemory), mostCPUs), "ask for less")
	}
	return e.holds(spec.Limits)
}

// holds says whether a share of processors can be held: a whole number is what
// the machine has, the rest needs a cgroup.
func (e *engine) holds(l sandbox.Limits) error {
	if l.CPUs == float64(int(l.CPUs)) {
		return nil
	}
	if e.groups == nil {
		return &sandbox.Error{Class: sandbox.Unavailable, Field: "limits.cpus", Err: e.unlimited}
	}
	return e.hierarchy.Enforces(cgroup.Limits{CPUs: l.CPUs})
}

func hardwareFor(l sandbox.Limits) hardwareOf {
	memory := l.MemoryBytes
	if memory == 0 {
		memory = defaultMemory
	}
	return hardwareOf{MemoryMiB: memory / mebibyte, CPUs: processors(l.CPUs)}
}

// create starts a machine with a disk: from a template, unless none is wanted or
// the kernel does not go with one.
func (e *engine) create(ctx context.Context, spec sandbox.Spec, root image.Root) (*instance, error) {
	disk, err := e.disks.Ensure(ctx, root)
	if err != nil {
		return nil, err
	}
	m := e.newMachine(spec, hardwareFor(spec.Limits), disk)
	if e.opts.Cold {
		return m.boot(ctx, root.Config)
	}
	t, err := e.template(ctx, m.hardware)
	if errors.Is(err, errDiskBuiltIn) {
		return m.boot(ctx, root.Config)
	}
	if err != nil {
		return nil, errors.Join(err, disk.Close())
	}
	defer t.close()
	return m.follow(ctx, t, root.Config)
}

func (e *engine) newMachine(spec sandbox.Spec, hw hardwareOf, disk *os.File) *machine {
	m := &machine{engine: e, id: spec.ID, spec: spec, hardware: hw, disk: disk}
	if m.id == "" {
		m.id = strings.ToLower(rand.Text())
	}
	return m
}

// boot starts the machine from its kernel.
func (m *machine) boot(ctx context.Context, image image.Config) (*instance, error) {
	b, err := m.engine.bootable()
	if err != nil {
		return nil, errors.Join(err, m.disk.Close())
	}
	guest, err := m.engine.boots.get(ctx, b)
	if err != nil {
		return nil, errors.Join(err, m.disk.Close())
	}
	l, err := m.engine.bootLaunch(ctx, b, guest, m.config(guest.Modules, image))
	if err != nil {
		return nil, errors.Join(err, m.disk.Close())
	}
	defer l.closeBoot()
	return m.start(ctx, beginning{invocation: l})
}

func (m *machine) config(modules []string, image image.Config) pid1.Config {
	c := pid1.Config{Channel: guestChannel, User: image.User, WorkDir: image.WorkDir, Env: maps.Clone(image.Env), Limits: m.spec.Limits}
	if c.Env == nil {
		c.Env = map[string]string{}
	}
	maps.Copy(c.Env, m.spec.Command.Env)
	if user := m.spec.Command.User; user != "" {
		c.User = user
	}
	if dir := m.spec.Command.WorkDir; dir != "" {
		c.WorkDir = dir
	}
	c.Machine = &pid1.Machine{Hostname: m.id, Modules: modules,
		Root: &pid1.Root{Device: rootDisk, Type: "erofs", UpperBytes: m.spec.Limits.DiskBytes}}
	return c
}
