package bubblewrap

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

	"aether/guest/inside"
	"aether/host/launch"
	"aether/image"
	"aether/sandbox"
)

const (
	defaultDisk = 1 << 30
	// userID is the only id inside when an ordinary user runs sandboxes.
	userID = 1000
)

// Create implements sandbox.Driver.
func (d *Driver) Create(ctx context.Context, spec sandbox.Spec) (sandbox.Instance, error) {
	if err := spec.Validate(); err != nil {
		return nil, fmt.Errorf("bubblewrap: %w", err)
	}
	e, err := d.open()
	if err != nil {
		return nil, err
	}
	if err := e.accepts(spec); err != nil {
		return nil, fmt.Errorf("bubblewrap: %w", err)
	}
	root, err := e.images.Resolve(ctx, spec.Image, nil)
	if err != nil {
		return nil, fmt.Errorf("bubblewrap: %w", err)
	}
	instance, err := e.create(ctx, spec, root)
	if err != nil {
		return nil, fmt.Errorf("bubblewrap: %w", explain(err))
	}
	return instance, nil
}

// accepts refuses what cannot be enforced.
func (e *engine) accepts(spec sandbox.Spec) error {
	refuse := func(field, reason, remedy string) error {
		return &sandbox.Error{Class: sandbox.Unsupported, Field: field, Reason: reason, Remedy: remedy}
	}
	switch {
	case spec.Isolation > sandbox.ProcessBoundary:
		return refuse("isolation", "bubblewrap gives a process boundary, not "+spec.Isolation.String(), "")
	case spec.Network.Mode == sandbox.EgressNetwork:
		return refuse("network.mode", "bubblewrap cannot filter what is reached", "use none or host")
	case spec.Limits.DiskBacked:
		return refuse("limits.disk_backed", "what is written is kept in memory", "leave it unset")
	}
	return e.groups.Accepts(spec.Limits)
}

// create acquires one thing after another; a failure gives all of them back.
func (e *engine) create(ctx context.Context, spec sandbox.Spec, root image.Root) (_ *instance, err error) {
	leave, err := e.fleet.Enter(Name)
	if err != nil {
		return nil, err
	}
	defer leave()
	tree, err := e.tree(spec, root)
	if err != nil {
		return nil, err
	}
	if spec.ID == "" {
		spec.ID = strings.ToLower(rand.Text())
	}
	b := &body{engine: e, limits: spec.Limits}
	group, attach, err := e.groups.Make(spec.Limits)
	if err != nil {
		return nil, err
	}
	b.group = group
	program := launch.Program{Path: e.bwrap, Group: attach, Tree: tree, Args: e.arguments(spec)}
	dialer, err := b.boot(ctx, program, e.settings(spec, root))
	if err != nil {
		return nil, errors.Join(err, inside.Remove(group))
	}
	i := &instance{Instance: inside.New(Name, spec.ID, spec, b, dialer), body: b}
	e.fleet.Add(i.Instance)
	return i, nil
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
		s.User = strconv.Itoa(userID)
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
