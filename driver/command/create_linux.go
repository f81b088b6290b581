package command

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"

	"aether/driver/guestagent"
	"aether/guest/channel"
	"aether/image"
	"aether/internal/host/cgroup"
	"aether/internal/host/launch"
	"aether/sandbox"
)

const (
	defaultDisk = 1 << 30
	// opaqueUpper is how much more room a kernel of its own has on the stage than it
	// gives the sandbox: it frees what was removed a while later.
	opaqueUpper = 2
)

// Create implements sandbox.Driver.
func (d *Driver) Create(ctx context.Context, spec sandbox.Spec) (sandbox.Instance, error) {
	if err := spec.Validate(); err != nil {
		return nil, fmt.Errorf("%s: %w", d.system.Name, err)
	}
	e, err := d.open()
	if err != nil {
		return nil, err
	}
	i, err := e.resolve(ctx, spec, nil)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", d.system.Name, explain(ctx, err))
	}
	return i, nil
}

func (e *engine) resolve(ctx context.Context, spec sandbox.Spec, from *Origin) (*Instance, error) {
	if err := e.accepts(spec); err != nil {
		return nil, err
	}
	root, err := e.images.Resolve(ctx, spec.Image, nil)
	if err != nil {
		return nil, err
	}
	if err := from.check(spec.Image, root.Digest); err != nil {
		return nil, err
	}
	return e.create(ctx, spec, root, from)
}

// accepts refuses what cannot be enforced.
func (e *engine) accepts(spec sandbox.Spec) error {
	refuse := func(field, reason, remedy string) error {
		return &sandbox.Error{Class: sandbox.Unsupported, Field: field, Reason: reason, Remedy: remedy}
	}
	name := e.system.Name
	switch memory := spec.Limits.MemoryBytes; {
	case spec.Isolation > e.system.boundary():
		return refuse("isolation", fmt.Sprintf("%s gives a %v boundary, not %v", name, e.system.boundary(), spec.Isolation), "")
	case spec.Network.Mode.Filtered() && !e.system.OwnNetwork:
		return refuse("network.mode", name+" cannot filter what is reached", "use none, or another driver")
	case spec.Network.Mode == sandbox.HostNetwork && e.system.NoHostNetwork != "":
		return refuse("network.mode", e.system.NoHostNetwork, "use none, or another driver")
	case spec.Limits.DiskBacked:
		return refuse("limits.disk_backed", "what is written is kept in memory", "leave it unset")
	case memory > 0 && memory < e.system.MinMemory:
		return refuse("limits.memory", fmt.Sprintf("%d bytes is less than the %d that %s and the service inside the sandbox need", memory, e.system.MinMemory, name), "")
	}
	if err := e.network.Accepts(spec.Network); err != nil {
		return err
	}
	if err := guestagent.RefusesRates(name, spec.Limits); err != nil {
		return err
	}
	return e.groups.accepts(spec.Limits)
}

// create acquires one thing after another; a failure gives all of them back.
func (e *engine) create(ctx context.Context, spec sandbox.Spec, root image.Root, from *Origin) (_ *Instance, err error) {
	leave, err := e.fleet.Enter(e.system.Name)
	if err != nil {
		return nil, err
	}
	defer leave()
	if spec.ID == "" {
		spec.ID = strings.ToLower(rand.Text())
	}
	settings, err := e.settings(ctx, spec, root)
	if err != nil {
		return nil, err
	}
	tree, err := e.tree(spec, root, from)
	if err != nil {
		return nil, err
	}
	b := &workload{engine: e, limits: e.system.group(spec.Limits)}
	var attach cgroup.Attach
	if b.group, attach, err = e.groups.make(b.limits); err != nil {
		return nil, err
	}
	program := launch.Program{Group: attach, Tree: tree, OwnNetwork: e.system.OwnNetwork && spec.Network.Mode != sandbox.HostNetwork}
	dialer, err := b.run(ctx, spec, program, settings, from)
	if err != nil {
		return nil, errors.Join(err, remove(b.group))
	}
	i := &Instance{Instance: guestagent.New(e.system.Name, spec.ID, spec, b, dialer), body: b, spec: spec, digest: root.Digest}
	e.fleet.Add(i.Instance)
	return i, nil
}

func (s System) group(l sandbox.Limits) sandbox.Limits {
	if s.Group == nil {
		return l
	}
	return s.Group(l)
}

// run asks the system for its command, or takes that of the origin, and boots it.
func (b *workload) run(ctx context.Context, spec sandbox.Spec, program launch.Program, settings guestagent.Settings, from *Origin) (*channel.Dialer, error) {
	e, of := b.engine, b.engine.system.Command
	with := beginning{network: spec.Network, join: func(ctx context.Context, p *guestagent.Pipes) (*channel.Dialer, error) { return p.Join(ctx, settings) }}
	if from != nil && from.Command != nil {
		of = from.Command
	}
	if from != nil && !from.Fresh {
		with.join, with.key = func(ctx context.Context, p *guestagent.Pipes) (*channel.Dialer, error) { return p.Rejoin(ctx) }, from.Authority
	}
	stage, err := e.stage(program)
	if err != nil {
		return nil, err
	}
	command, err := of(stage, spec)
	if err != nil {
		return nil, err
	}
	program.Path, program.Args, program.Env = e.tools.program, command.Args, command.Env
	if !e.system.Plain {
		program.Path, program.Args, program.Env = e.tools.shell, e.script(command), e.environment(command)
	}
	with.config = command.Config
	return b.boot(ctx, program, with)
}

func (e *engine) tree(spec sandbox.Spec, root image.Root, from *Origin) (*launch.Tree, error) {
	layers, err := e.bare.Layers(root)
	if err != nil {
		return nil, err
	}
	tree := &launch.Tree{Layers: layers, UpperBytes: spec.Limits.DiskBytes, Mounts: spec.Mounts, Aside: e.system.Opaque, Shown: []string{e.guest}}
	if from != nil {
		tree.Shown = append(tree.Shown, from.Shown...)
	}
	if tree.UpperBytes == 0 {
		tree.UpperBytes = defaultDisk
	}
	if e.system.Opaque {
		tree.UpperBytes *= opaqueUpper
	}
	for _, bind := range root.Binds {
		tree.Binds = append(tree.Binds, launch.Bind(bind))
	}
	return tree, nil
}

// settings are the image's, and over them the caller's.
func (e *engine) settings(ctx context.Context, spec sandbox.Spec, root image.Root) (guestagent.Settings, error) {
	s := guestagent.Settings{User: root.Config.User, WorkDir: root.Config.WorkDir, Env: root.Config.Env}
	if e.host.Single {
		s.User = strconv.Itoa(e.system.user())
	}
	s, err := s.On(ctx, e.network, spec.Network)
	return s.With(spec.Command), err
}

// user is whom the one id of an ordinary user's sandboxes belongs to. A kernel of
// its own has all ids, and takes the caller's for its root's.
func (s System) user() int {
	if s.Opaque {
		return 0
	}
	return UserID
}

// explain says why the kernel refused to make a sandbox. If the time for it was over by
// then, that is why: of a program that is killed the kernel shows nothing more.
func explain(ctx context.Context, err error) error {
	e := &sandbox.Error{Err: err}
	switch {
	case sandbox.ClassOf(err) != sandbox.Internal:
		return err
	case ctx.Err() != nil:
		return fmt.Errorf("%w: %v", ctx.Err(), err)
	case errors.Is(err, syscall.EPERM), errors.Is(err, syscall.EACCES):
		e.Class, e.Reason = sandbox.Unavailable, "this user may not make the namespaces or mounts of a sandbox"
		e.Remedy = "run as root, or allow unprivileged user namespaces"
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EUSERS):
		e.Class, e.Reason, e.Retry = sandbox.Exhausted, "the host's bound on namespaces is reached", true
		e.Remedy = "raise the sysctls user.max_*_namespaces"
	case errors.Is(err, syscall.EAGAIN), errors.Is(err, syscall.ENOMEM):
		e.Class, e.Reason, e.Retry = sandbox.Exhausted, "the host has no room for more processes", true
	case errors.Is(err, os.ErrNotExist):
		e.Reason = "a part of the image went away"
	default:
		return err
	}
	return e
}
