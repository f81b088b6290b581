package vmm

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"strings"
	"time"

	"aether/driver/guestagent"
	"aether/guest/pid1"
	"aether/image"
	"aether/image/initramfs"
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
	case spec.Network.Mode != sandbox.NoNetwork:
		return unsupported("network.mode", "machines have no network card yet", "use none")
	case len(spec.Mounts) > 0:
		return unsupported("mounts", "machines show no host directories yet", "copy files through the guest service")
	case spec.Limits.DiskBacked:
		return unsupported("limits.disk_backed", "what a machine writes is kept in its memory", "give it more memory")
	case spec.Limits.MemoryBytes > 0 && spec.Limits.MemoryBytes < leastMemory:
		return unsupported("limits.memory", fmt.Sprintf("%d bytes is too little for a kernel of its own", spec.Limits.MemoryBytes),
			fmt.Sprintf("give it at least %d", int64(leastMemory)))
	case spec.Limits.MemoryBytes > mostMemory || spec.Limits.CPUs > float64(e.system.MostCPUs):
		return unsupported("limits", fmt.Sprintf("a machine has at most %d bytes of memory and %d processors", int64(mostMemory), e.system.MostCPUs), "ask for less")
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

func hardwareFor(l sandbox.Limits) Hardware {
	memory := l.MemoryBytes
	if memory == 0 {
		memory = defaultMemory
	}
	return Hardware{MemoryMiB: memory / mebibyte, CPUs: processors(l.CPUs)}
}

// processors are enough for a share of them.
func processors(share float64) int { return max(1, int(math.Ceil(share))) }

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
	config, err := m.config(guest.Modules, root.Config)
	if err != nil {
		return nil, errors.Join(err, disk.Close())
	}
	fill := func() error {
		return errors.Join(m.home.share(kernel, Kernel), m.home.write(Initramfs, guest.Archive, config))
	}
	return m.start(ctx, fill, func(ctx context.Context) error {
		if err := m.monitor.Boot(ctx, m.hardware, e.system.Words); err != nil {
			return err
		}
		// They have been read, and a monitor that would boot its machine once more,
		// as after a panic, ends instead.
		return drop(m.home.root, Kernel, Initramfs)
	})
}

func (e *engine) newMachine(spec sandbox.Spec, hw Hardware, disk *os.File) *machine {
	m := &machine{engine: e, id: spec.ID, spec: spec, hardware: hw, disk: disk}
	if m.id == "" {
		m.id = strings.ToLower(rand.Text())
	}
	return m
}

// config is the part of the initramfs that is this machine's own.
func (m *machine) config(modules []string, image image.Config) ([]byte, error) {
	c := pid1.Config{Channel: fmt.Sprintf("vsock:%d", guestPort), User: image.User, WorkDir: image.WorkDir,
		Env: maps.Clone(image.Env), Limits: m.spec.Limits}
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
		Root: &pid1.Root{Device: "/dev/vda", Type: "erofs", UpperBytes: m.spec.Limits.DiskBytes}}
	text, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	return initramfs.Config("aether.json", text)
}

// start starts a monitor in a directory that fill has filled, has begin set the
// machine going, and waits for its guest service. It takes the machine over: a
// failure leaves nothing.
func (m *machine) start(ctx context.Context, fill func() error, begin func(context.Context) error) (*instance, error) {
	leave, err := m.engine.fleet.Enter(m.engine.system.Name)
	if err != nil {
		return nil, errors.Join(err, m.disk.Close())
	}
	defer leave()
	ctx, cancel := context.WithTimeout(ctx, bootTime)
	defer cancel()
	if err = m.launch(ctx, fill); err == nil {
		err = m.connect(ctx, begin)
	}
	if err != nil {
		err = m.explain(ctx, err)
		cleanup, cancel := context.WithTimeout(context.WithoutCancel(ctx), guestagent.CleanupTime)
		defer cancel()
		return nil, errors.Join(err, m.release(cleanup))
	}
	i := &instance{guestagent.New(m.engine.system.Name, m.id, m.spec, body{m}, m.dialer), m}
	m.engine.fleet.Add(i.Instance)
	return i, nil
}

// connect speaks to the monitor and then to the guest.
func (m *machine) connect(ctx context.Context, begin func(context.Context) error) error {
	if err := m.awaitMonitor(ctx); err != nil {
		return err
	}
	if err := m.monitor.Hello(ctx); err != nil {
		return err
	}
	if err := begin(ctx); err != nil {
		return err
	}
	return m.dialer.await(ctx, m.process.over)
}

// explain says why a machine did not come up, in the words of whoever knows: the
// monitor, or the guest's kernel.
func (m *machine) explain(ctx context.Context, err error) error {
	if m.process == nil {
		return err
	}
	e := &sandbox.Error{Class: sandbox.Unavailable, Err: err}
	select {
	case <-m.process.over:
		e.Reason = "the machine ended before its guest service answered"
	case <-time.After(settle):
		e.Reason = "the machine did not come up"
		if ctx.Err() != nil {
			e.Class = sandbox.Timeout
		}
	}
	e.Reason += m.said()
	return e
}
