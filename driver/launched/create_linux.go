package launched

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"os"
	"strconv"
	"strings"
	"syscall"

	"aether/guest/channel"
	"aether/guest/inside"
	"aether/host/launch"
	"aether/image"
	"aether/sandbox"
)

const defaultDisk = 1 << 30

// Create implements sandbox.Driver.
func (d *Driver) Create(ctx context.Context, spec sandbox.Spec) (sandbox.Instance, error) {
	if err := spec.Validate(); err != nil {
		return nil, fmt.Errorf("%s: %w", d.system.Name, err)
	}
	e, err := d.open()
	if err != nil {
		return nil, err
	}
	i, err := e.resolve(ctx, spec)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", d.system.Name, explain(err))
	}
	return i, nil
}

func (e *engine) resolve(ctx context.Context, spec sandbox.Spec) (*instance, error) {
	if err := e.accepts(spec); err != nil {
		return nil, err
	}
	root, err := e.images.Resolve(ctx, spec.Image, nil)
	if err != nil {
		return nil, err
	}
	return e.create(ctx, spec, root)
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
	case spec.Network.Mode == sandbox.EgressNetwork:
		return refuse("network.mode", name+" cannot filter what is reached", "use none or host")
	case spec.Limits.DiskBacked:
		return refuse("limits.disk_backed", "what is written is kept in memory", "leave it unset")
	case memory > 0 && memory < e.system.MinMemory:
		return refuse("limits.memory", fmt.Sprintf("%d bytes is less than the %d that %s and the service inside the sandbox need", memory, e.system.MinMemory, name), "")
	}
	return e.groups.Accepts(spec.Limits)
}

// create acquires one thing after another; a failure gives all of them back.
func (e *engine) create(ctx context.Context, spec sandbox.Spec, root image.Root) (_ *instance, err error) {
	leave, err := e.fleet.Enter(e.system.Name)
	if err != nil {
		return nil, err
	}
	defer leave()
	if spec.ID == "" {
		spec.ID = strings.ToLower(rand.Text())
	}
	tree, err := e.tree(spec, root)
	if err != nil {
		return nil, err
	}
	group, attach, err := e.groups.Make(spec.Limits)
	if err != nil {
		return nil, err
	}
	b := &body{engine: e, limits: spec.Limits, group: group}
	dialer, err := b.run(ctx, spec, launch.Program{Group: attach, Tree: tree}, e.settings(spec, root))
	if err != nil {
		return nil, errors.Join(err, inside.Remove(group))
	}
	i := &instance{Instance: inside.New(e.system.Name, spec.ID, spec, b, dialer), body: b}
	e.fleet.Add(i.Instance)
	return i, nil
}

// run asks the system for its command and boots it.
func (b *body) run(ctx context.Context, spec sandbox.Spec, program launch.Program, settings inside.Settings) (*channel.Dialer, error) {
	e := b.engine
	stage, err := e.stage(program.Group)
	if err != nil {
		return nil, err
	}
	command, err := e.system.Command(stage, spec)
	if err != nil {
		return nil, err
	}
	program.Path, program.Args, program.Env = e.tools.shell, e.script(command), e.environment(command)
	return b.boot(ctx, program, command.Config, settings)
}

func (e *engine) tree(spec sandbox.Spec, root image.Root) (*launch.Tree, error) {
	layers, err := e.bare.Layers(root)
	if err != nil {
		return nil, err
	}
	tree := &launch.Tree{Layers: layers, UpperBytes: spec.Limits.DiskBytes, Mounts: spec.Mounts, Shown: []string{e.guest}}
	if tree.UpperBytes == 0 {
		tree.UpperBytes = defaultDisk
	}
	for _, bind := range root.Binds {
		tree.Binds = append(tree.Binds, launch.Bind(bind))
	}
	return tree, nil
}

// settings are the image's, and over them the caller's.
func (e *engine) settings(spec sandbox.Spec, root image.Root) inside.Settings {
	s := inside.Settings{User: root.Config.User, WorkDir: root.Config.WorkDir, Env: maps.Clone(root.Config.Env)}
	if s.Env == nil {
		s.Env = map[string]string{}
	}
	maps.Copy(s.Env, spec.Command.Env)
	if e.host.Single {
		s.User = strconv.Itoa(UserID)
	}
	if spec.Command.User != "" {
		s.User = spec.Command.User
	}
	if spec.Command.WorkDir != "" {
		s.WorkDir = spec.Command.WorkDir
	}
	return s
}

// explain says why the kernel refused to make a sandbox.
func explain(err error) error {
	e := &sandbox.Error{Err: err}
	switch {
	case sandbox.ClassOf(err) != sandbox.Internal:
		return err
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
