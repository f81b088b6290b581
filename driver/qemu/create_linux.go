package qemu

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"strings"
	"time"

	"aether/driver/qemu/qmp"
	"aether/guest/channel"
	"aether/guest/inside"
	"aether/guest/pid1"
	"aether/host/cgroup"
	"aether/host/memfd"
	"aether/image"
	"aether/image/initramfs"
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

// create boots a machine from a disk.
func (e *engine) create(ctx context.Context, spec sandbox.Spec, root image.Root) (*instance, error) {
	kernel, guest, err := e.bootable(ctx)
	if err != nil {
		return nil, err
	}
	defer kernel.Close()
	disk, err := e.disks.Ensure(ctx, root)
	if err != nil {
		return nil, err
	}
	m := e.newMachine(spec, hardwareFor(spec.Limits), disk)
	archive, err := m.archive(guest, root.Config)
	if err != nil {
		return nil, errors.Join(err, disk.Close())
	}
	defer archive.Close()
	return m.start(ctx, launch{kernel: kernel, initramfs: archive}, nil)
}

func (e *engine) newMachine(spec sandbox.Spec, hw hardwareOf, disk *os.File) *machine {
	m := &machine{engine: e, id: spec.ID, spec: spec, hardware: hw, disk: disk}
	if m.id == "" {
		m.id = strings.ToLower(rand.Text())
	}
	return m
}

// archive is what the kernel unpacks: what all machines share, and then what is
// this one's own.
func (m *machine) archive(guest *initramfs.Guest, image image.Config) (*os.File, error) {
	text, err := json.Marshal(m.config(guest.Modules, image))
	if err != nil {
		return nil, err
	}
	own, err := initramfs.Config("aether.json", text)
	if err != nil {
		return nil, err
	}
	return memfd.Create("initramfs", guest.Archive, own)
}

func (m *machine) config(modules []string, image image.Config) pid1.Config {
	c := pid1.Config{Channel: "virtio:" + portName, User: image.User, WorkDir: image.WorkDir, Env: maps.Clone(image.Env), Limits: m.spec.Limits}
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

// start starts the machine and waits for its guest service; then, if not nil, is
// done in between. It takes the machine over: a failure leaves nothing.
func (m *machine) start(ctx context.Context, l launch, then func(context.Context) error) (*instance, error) {
	leave, err := m.engine.fleet.Enter(Name)
	if err != nil {
		return nil, errors.Join(err, m.disk.Close())
	}
	defer leave()
	ctx, cancel := context.WithTimeout(ctx, bootTime)
	defer cancel()
	err = m.launch(l)
	if err == nil {
		err = m.connect(ctx, then)
	}
	if err != nil {
		err = m.explain(ctx, err)
		cleanup, cancel := context.WithTimeout(context.WithoutCancel(ctx), inside.CleanupTime)
		defer cancel()
		return nil, errors.Join(err, m.release(cleanup))
	}
	i := &instance{inside.New(Name, m.id, m.spec, body{m}, m.dialer), m}
	m.engine.fleet.Add(i.Instance)
	return i, nil
}

func (m *machine) launch(l launch) (err error) {
	e := m.engine
	l.program, l.disk, l.attach.Into = e.program, m.disk, -1
	l.user = lowlyUser(e.accel)
	l.args = func(fds inherited) []string { return arguments(e.accel, m.hardware, fds) }
	if e.groups != nil {
		if m.group, err = e.groups.Create(fmt.Sprintf("machine-%d", e.count.Add(1))); err != nil {
			return err
		}
		if err := m.limit(); err != nil {
			return err
		}
		if l.attach, err = m.group.Attach(true); err != nil {
			return err
		}
	}
	m.process, m.wires, err = l.start()
	return err
}

// limit holds QEMU itself, in case that a guest takes it over, and shares of
// processors.
func (m *machine) limit() error {
	var limits cgroup.Limits
	held := m.engine.hierarchy.Holds()
	if held&cgroup.Memory != 0 {
		limits.Memory = m.hardware.MemoryMiB*mebibyte + overhead
	}
	if held&cgroup.CPU != 0 {
		limits.CPUs = m.spec.Limits.CPUs
	}
	if held&cgroup.Pids != 0 {
		limits.Pids = maxThreads + int64(m.hardware.CPUs)
	}
	return m.group.Set(limits)
}

// maxThreads is what QEMU has beside one for each processor: its workers come and
// go with disk requests.
const maxThreads = 128

func (m *machine) connect(ctx context.Context, then func(context.Context) error) (err error) {
	if m.monitor, err = qmp.New(ctx, m.wires.monitor); err != nil {
		return err
	}
	if then != nil {
		if err := then(ctx); err != nil {
			return err
		}
	}
	m.dialer, err = channel.Connect(ctx, m.wires.channel)
	return err
}

// explain says why a machine did not come up, in the words of whoever knows:
// QEMU, or the guest's kernel.
func (m *machine) explain(ctx context.Context, err error) error {
	if m.process == nil {
		return err
	}
	e := &sandbox.Error{Class: sandbox.Unavailable, Err: err}
	select {
	case <-m.process.ended:
		e.Reason = "the machine ended before its guest service answered"
	case <-time.After(settle):
		e.Reason = "the guest service did not answer"
		if ctx.Err() != nil {
			e.Class = sandbox.Timeout
		}
	}
	e.Reason += m.said()
	return e
}
