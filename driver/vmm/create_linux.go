package vmm

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	"os"
	"strings"
	"time"

	"aether/driver/guestagent"
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
	mostMemory  = 1 << 40
	// bootTime is how long a machine may take until its guest service answers, on
	// the slowest host: a machine that is itself emulated.
	bootTime = 3 * time.Minute
)

// Create implements sandbox.Driver.
func (d *Driver) Create(ctx context.Context, spec sandbox.Spec) (sandbox.Instance, error) {
	i, err := d.create(ctx, spec)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", d.system.Name, err)
	}
	return i, nil
}

func (d *Driver) create(ctx context.Context, spec sandbox.Spec) (*instance, error) {
	if err := spec.Validate(); err != nil {
		return nil, err
	}
	e, err := d.open(ctx)
	if err != nil {
		return nil, err
	}
	if err := e.accepts(ctx, spec); err != nil {
		return nil, err
	}
	root, err := e.images.Resolve(ctx, spec.Image, nil)
	if err != nil {
		return nil, err
	}
	return e.create(ctx, spec, root)
}

// accepts refuses what cannot be enforced here.
func (e *engine) accepts(ctx context.Context, spec sandbox.Spec) error {
	unsupported := func(field, reason, remedy string) error {
		return &sandbox.Error{Class: sandbox.Unsupported, Field: field, Reason: reason, Remedy: remedy}
	}
	switch {
	case spec.Isolation > boundary(e.emulated):
		return unsupported("isolation", "without KVM, "+e.system.Name+" gives a "+boundary(e.emulated).String()+" boundary",
			"use a host where KVM works: see `aether doctor`")
	case len(spec.Mounts) > 0:
		return unsupported("mounts", "machines show no host directories yet", "copy files through the guest service")
	case spec.Limits.DiskBacked && !e.system.Layered:
		return unsupported("limits.disk_backed", "what a machine writes is kept in its memory", "give it more memory")
	case spec.Limits.MemoryBytes > 0 && spec.Limits.MemoryBytes < leastMemory:
		return unsupported("limits.memory", fmt.Sprintf("%d bytes is too little for a kernel of its own", spec.Limits.MemoryBytes),
			fmt.Sprintf("give it at least %d", int64(leastMemory)))
	case spec.Limits.MemoryBytes > mostMemory || spec.Limits.CPUs > float64(e.system.MaxCPUs):
		return unsupported("limits", fmt.Sprintf("a machine has at most %d bytes of memory and %d processors", int64(mostMemory), e.system.MaxCPUs), "ask for less")
	}
	if err := e.refusesNetwork(ctx, spec.Network); err != nil {
		return err
	}
	if err := guestagent.RefusesRates(e.system.Name, spec.Limits); err != nil {
		return err
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

func (e *engine) hardwareFor(l sandbox.Limits) Hardware {
	memory := l.MemoryBytes
	if memory == 0 {
		memory = defaultMemory
	}
	return Hardware{MemoryMiB: memory / mebibyte, CPUs: processors(l.CPUs), Emulated: e.emulated}
}

// processors are enough for a share of them.
func processors(share float64) int { return max(1, int(math.Ceil(share))) }

// create starts a machine of an image.
func (e *engine) create(ctx context.Context, spec sandbox.Spec, root image.Root) (*instance, error) {
	disk, err := e.disks.Ensure(ctx, root)
	if err != nil {
		return nil, err
	}
	defaults := guestagent.Settings{User: root.Config.User, WorkDir: root.Config.WorkDir, Env: root.Config.Env}
	if defaults, err = defaults.On(ctx, e.opts.Network, spec.Network); err != nil {
		return nil, errors.Join(err, disk.Close())
	}
	m := e.newMachine(spec, e.hardwareFor(spec.Limits), origin{spec.Image, defaults.With(spec.Command)}, disk)
	return m.come(ctx, nil)
}

// come starts a machine with a disk: from a template, where the system and the
// kernel go with one, and it has no second disk, which templates have not. It is given the
// files, if there are any, before it is anybody's.
func (m *machine) come(ctx context.Context, files *os.File) (*instance, error) {
	e := m.engine
	if !e.system.Template || e.opts.Cold || m.spec.Limits.DiskBacked {
		return m.boot(ctx, files)
	}
	t, err := e.template(ctx, m.hardware)
	if errors.Is(err, errDiskBuiltIn) {
		return m.boot(ctx, files)
	}
	if err != nil {
		return nil, errors.Join(err, m.disk.Close())
	}
	defer t.close()
	return m.follow(ctx, t, files)
}

func (e *engine) newMachine(spec sandbox.Spec, hw Hardware, from origin, disk *os.File) *machine {
	m := &machine{engine: e, id: spec.ID, spec: spec, hardware: hw, origin: from, disk: disk}
	if m.id == "" {
		m.id = strings.ToLower(rand.Text())
	}
	return m
}

// boot starts the machine from its kernel.
func (m *machine) boot(ctx context.Context, files *os.File) (*instance, error) {
	if err := m.giveDisk(ctx); err != nil {
		return nil, errors.Join(err, m.disk.Close())
	}
	defer m.writable.handedOver()
	from, err := m.bootFiles(ctx)
	if err != nil {
		m.writable.close()
		return nil, errors.Join(err, m.disk.Close())
	}
	defer from.kernel.Close()
	return m.start(ctx, beginning{fill: func(place workplace) error {
		if !m.engine.system.Handed {
			return from.give(place)
		}
		return errors.Join(from.give(place), m.giveMemory(place))
	}, begin: func(ctx context.Context) error { return m.place.boot(ctx, m) },
		greet: func(ctx context.Context) error { return m.settle(ctx, files) }})
}

// settle makes the sandbox of a machine that has been set up.
func (m *machine) settle(ctx context.Context, files *os.File) error {
	if err := m.putFiles(ctx, files); err != nil {
		return err
	}
	return m.joinNetwork(ctx, nil)
}

func (m *machine) bootFiles(ctx context.Context) (f bootFiles, err error) {
	b, err := m.engine.bootable()
	if err != nil {
		return f, err
	}
	guest, err := m.engine.boots.get(ctx, b, m.engine.system.Modules)
	if err != nil {
		return f, err
	}
	return m.engine.bootFiles(ctx, b, guest, m.config(guest.Modules))
}

// channel is where the guest service listens.
func (s System) channel() string {
	if s.Inherit != nil && !s.Handed {
		return "virtio:" + PortName
	}
	return fmt.Sprintf("vsock:%d", guestPort)
}

// config is what the guest is told.
func (m *machine) config(modules []string) pid1.Config {
	defaults := m.origin.Defaults
	root := &pid1.Root{Device: "/dev/vda", Type: "erofs", UpperBytes: m.spec.Limits.DiskBytes}
	if m.writable != nil {
		root.Upper = "/dev/vdb"
	}
	return pid1.Config{Channel: m.engine.system.channel(), User: defaults.User, WorkDir: defaults.WorkDir, Env: defaults.Env, Limits: m.spec.Limits,
		Machine: &pid1.Machine{Hostname: m.id, Modules: modules, Root: root}}
}
