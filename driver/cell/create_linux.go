package cell

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"

	"aether/driver/lifetime"
	"aether/guest"
	"aether/image"
	"aether/internal/host/cgroup"
	"aether/internal/host/confine"
	"aether/internal/host/sysinfo"
	"aether/network"
	"aether/sandbox"
)

const (
	defaultProcesses = 4096
	defaultDisk      = 1 << 30
)

// Create implements sandbox.Driver.
func (d *Driver) Create(ctx context.Context, spec sandbox.Spec) (sandbox.Instance, error) {
	if err := spec.Validate(); err != nil {
		return nil, fmt.Errorf("cell: %w", err)
	}
	e, err := d.openWith(func(b *bases) { d.lookAhead(ctx, spec, b) })
	if err != nil {
		return nil, err
	}
	if err := e.accepts(spec); err != nil {
		return nil, fmt.Errorf("cell: %w", err)
	}
	root, err := e.images.Resolve(ctx, spec.Image, nil)
	if err != nil {
		return nil, fmt.Errorf("cell: %w", err)
	}
	i, err := e.create(ctx, spec, root, nil)
	if err != nil {
		return nil, err
	}
	if err := i.settleNetwork(ctx, true); err != nil {
		return nil, errors.Join(fmt.Errorf("cell: %w", err), i.Destroy(ctx))
	}
	return i, nil
}

// lookAhead gets the host ready to be the image of a cell, if it is to be, while the rest
// of the engine is opened: either takes a millisecond. What is found is remembered for
// whoever makes the cell. A failure comes again then, and is theirs to tell.
func (d *Driver) lookAhead(ctx context.Context, spec sandbox.Spec, b *bases) {
	if spec.Image != sandbox.HostImage {
		return
	}
	images, err := d.opts.Images()
	if err != nil {
		return
	}
	if root, err := images.Resolve(ctx, spec.Image, nil); err == nil {
		_ = b.prepareAhead(root)
	}
}

// accepts refuses what cannot be enforced here.
func (e *engine) accepts(spec sandbox.Spec) error {
	if spec.Isolation > sandbox.ProcessBoundary {
		return &sandbox.Error{Class: sandbox.Unsupported, Field: "isolation", Reason: "a cell gives a process boundary, not " + spec.Isolation.String()}
	}
	if err := e.network.Accepts(spec.Network); err != nil {
		return err
	}
	if spec.Limits.DiskBacked && spec.Limits.DiskBytes > 0 {
		if err := e.host.BoundsDisks(spec.Limits.DiskBytes); err != nil {
			return err
		}
	}
	limits, rates := limitsOf(spec.Limits), ratesOf(spec.Limits)
	if e.host.BoundsProcesses() {
		limits.Pids = 0 // enforced with or without cgroups
	}
	switch {
	case e.groups != nil:
		return enforces(e.groups.hierarchy, limits, rates)
	case limits == (cgroup.Limits{}) && rates == (cgroup.Rates{}):
		return nil
	}
	// No groups could be made; what is said is why the one that was asked for is
	// missing.
	hierarchy, err := cgroup.Detect()
	if err == nil {
		err = enforces(hierarchy, limits, rates)
	}
	if err == nil {
		err = &sandbox.Error{Class: sandbox.Unavailable, Field: "limits", Err: e.unlimited}
	}
	return err
}

func enforces(h *cgroup.Hierarchy, l cgroup.Limits, r cgroup.Rates) error {
	if err := h.Enforces(l); err != nil {
		return err
	}
	return h.EnforcesRates(r)
}

// limitsOf is what the caller set; defaults are added where they can be held.
func limitsOf(l sandbox.Limits) cgroup.Limits {
	return cgroup.Limits{Memory: l.MemoryBytes, CPUs: l.CPUs, Pids: l.Processes}
}

// create acquires one thing after another; a failure gives all of them back. The key is that
// of the cell that this one goes on from, or nil.
func (e *engine) create(ctx context.Context, spec sandbox.Spec, root image.Root, key network.AuthorityKey) (_ *instance, err error) {
	e.gate.RLock()
	defer e.gate.RUnlock()
	if e.closed {
		return nil, errClosed
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("cell: %w", err)
	}
	i := &instance{engine: e, spec: spec, root: root, authority: key, layer: e.snapshots.layerOf(root)}
	defer func() {
		if err != nil {
			e.letLayer(i.layer, root)
		}
	}()
	i.Begin(Name, cmp.Or(spec.ID, newID()), i.kill)
	trust, err := e.network.TrustEnv(ctx, spec.Network)
	if err != nil {
		return nil, fmt.Errorf("cell: %w", err)
	}
	if i.service, err = guest.New(backend{i}, e.serviceOptions(spec, root, trust)); err != nil {
		return nil, fmt.Errorf("cell: %w", err)
	}
	if err := i.boot(ctx, root); err != nil {
		return nil, fmt.Errorf("cell: %w", unavailable(err))
	}
	i.Limit(spec.Timeouts.Lifetime)
	e.living.Store(i, nil)
	i.cell.OnEnd(i.ended)
	i.wait()
	return i, nil
}

func newID() string { return strings.ToLower(rand.Text()) }

// boot makes the cell itself. A failure gives everything back.
func (i *instance) boot(ctx context.Context, root image.Root) error {
	e := i.engine
	base, err := e.bases.acquire(root, i.networked())
	if err != nil {
		return err
	}
	defer e.bases.release(base)
	config := i.config()
	if err := i.makeDisk(ctx, &config); err != nil {
		return err
	}
	err = i.bootFrom(ctx, base, config)
	if err == nil {
		return nil
	}
	if removed := i.removeDisk(); removed != nil || !i.doWithout(err) {
		return errors.Join(err, removed)
	}
	return i.boot(ctx, root)
}

func (i *instance) bootFrom(ctx context.Context, base *base, config confine.Config) error {
	e := i.engine
	warm, err := e.warmCellFor(base, config, i.networked())
	if err != nil {
		return err
	}
	i.place.state, i.place.group, i.network = warm.state(), warm.group, warm.network
	if i.spec.ID == "" && warm.id != "" {
		i.Begin(Name, warm.id, i.kill)
		config.Hostname = warm.id
	}
	if i.cell, err = warm.Boot(config.Hostname, config.Processes); err != nil {
		return joinRemoval(ctx, warm.group, errors.Join(err, i.network.Leave()))
	}
	if err := i.equip(ctx, warm.limited); err != nil {
		err = errors.Join(err, i.cell.Kill())
		_, waited := i.cell.Wait()
		return joinRemoval(ctx, i.group(), errors.Join(err, waited, i.network.Leave()))
	}
	return nil
}

// equip gives a cell that lives its limits, unless it has them, and its network.
func (i *instance) equip(ctx context.Context, limited bool) error {
	if !limited || limitsOf(i.spec.Limits) != (cgroup.Limits{}) || ratesOf(i.spec.Limits) != (cgroup.Rates{}) {
		if err := i.limit(); err != nil {
			return err
		}
	}
	return i.joinNetwork(ctx)
}

// limit sets the cell's limits. That may add a group to those that its commands
// enter.
func (i *instance) limit() error {
	group, err := i.limited()
	if err != nil || group == nil {
		return err
	}
	if err := i.limitRates(); err != nil {
		return err
	}
	return i.cell.Regroup(group.Way())
}

// limited is the group of a new cell, with its limits.
func (i *instance) limited() (*cgroup.Group, error) {
	p := &i.place
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state != vacant {
		return p.group, i.engine.limit(p.group, i.spec.Limits)
	}
	if err := i.furnish(); err != nil {
		return nil, err
	}
	p.become(unused)
	return p.group, nil
}

// holds says whether cgroups can enforce a controller's limit here.
func (e *engine) holds(c cgroup.Controller) bool {
	return e.groups != nil && e.groups.hierarchy.Holds()&c != 0
}

// limit sets what the caller asked for, and defaults where they can be held.
func (e *engine) limit(group *cgroup.Group, asked sandbox.Limits) error {
	if group == nil {
		return nil
	}
	limits := limitsOf(asked)
	if !e.holds(cgroup.Pids) {
		limits.Pids = 0 // a resource limit instead: see config
	}
	if limits.Pids == 0 && !e.host.BoundsProcesses() && e.holds(cgroup.Pids) {
		limits.Pids = defaultProcesses
	}
	if limits.Pids > 1 && e.initIsApart() {
		limits.Pids-- // PID 1, which is one of them
	}
	if limits.Memory == 0 && e.holds(cgroup.Memory) {
		limits.Memory = sysinfo.HalfOfMemory()
	}
	return group.Set(limits)
}

func (i *instance) config() confine.Config {
	config := confine.Config{
		Hostname:    i.ID(),
		Upper:       i.spec.Limits.DiskBytes,
		HostNetwork: i.spec.Network.Mode == sandbox.HostNetwork,
	}
	if config.Upper == 0 {
		config.Upper = defaultDisk
	}
	for _, m := range i.spec.Mounts {
		config.Mounts = append(config.Mounts, confine.Mount{Source: m.Source, Target: m.Target, Writable: m.Writable})
	}
	config.Processes = i.spec.Limits.Processes
	switch {
	case config.Processes == 0:
		config.Processes = defaultProcesses
	case i.engine.holds(cgroup.Pids):
		config.Processes = 0 // the cgroup counts all users of the cell together
	}
	return config
}

func (e *engine) serviceOptions(spec sandbox.Spec, root image.Root, trust map[string]string) guest.Options {
	env := root.Config.Env
	if len(spec.Command.Env) > 0 || len(trust) > 0 {
		env = map[string]string{}
		maps.Copy(env, trust)
		maps.Copy(env, root.Config.Env)
		maps.Copy(env, spec.Command.Env)
	}
	opts := guest.Options{DefaultUser: root.Config.User, Env: env, WorkDir: root.Config.WorkDir, Limits: spec.Limits, Logger: e.log}
	if e.host.Identity.Single {
		opts.DefaultUser = strconv.Itoa(confine.UserID)
	}
	if spec.Command.User != "" {
		opts.DefaultUser = spec.Command.User
	}
	if spec.Command.WorkDir != "" {
		opts.WorkDir = spec.Command.WorkDir
	}
	return opts
}

// joinRemoval gives a group back after err and adds what went wrong with that.
func joinRemoval(ctx context.Context, group *cgroup.Group, err error) error {
	if group == nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lifetime.CleanupTime)
	defer cancel()
	return errors.Join(err, group.Retire(ctx))
}
