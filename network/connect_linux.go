package network

import (
	"context"
	"errors"
	"io/fs"
	"os"

	"aether/internal/host/netdev"
	"aether/sandbox"
)

// Place is where the net namespace of a sandbox is found: by PID, or by File.
type Place struct {
	// PID is a process that is in it. Still is asked, once the process is held, whether it
	// is the sandbox's: its number could have become another's.
	PID   int
	Still func() error
	// File stands for the namespace, and is nobody's inside to change.
	File string
}

func (p Place) open() (*netdev.Namespace, error) {
	if p.File != "" {
		return netdev.OpenNamespace(p.File)
	}
	return netdev.NamespaceOf(p.PID, p.Still)
}

// Connect gives a sandbox of a filtered mode that lives its network: a device in its net
// namespace, which has a loopback that is up and nothing else, and is not this program's
// own. The key is that of the sandbox that this one goes on from, or nil. A failure leaves
// nothing. Errors: Unavailable where this user may not enter it.
func (s *Service) Connect(ctx context.Context, n sandbox.Network, at Place, key AuthorityKey) (*Attached, error) {
	namespace, err := at.open()
	if err != nil {
		return nil, unenterable(err)
	}
	var a *Attached
	if n.Mode == sandbox.NatNetwork {
		a, err = s.connectDirect(ctx, n, namespace)
	} else {
		a, err = s.connect(ctx, n, namespace.Way(), key)
	}
	return a, errors.Join(err, namespace.Close())
}

// Process is one in the net namespace of a sandbox, or that namespace itself.
type Process struct {
	// FD is its descriptor.
	FD int
	// OwnUser says that it is a process, to whose own user namespace the net namespace
	// belongs. Otherwise FD is of the namespace, which belongs to this program's.
	OwnUser bool
}

// ConnectProcess is Connect for who has a descriptor of a process in the namespace.
func (s *Service) ConnectProcess(ctx context.Context, n sandbox.Network, in Process, key AuthorityKey) (*Attached, error) {
	if n.Mode != sandbox.NatNetwork {
		return s.connect(ctx, n, netdev.By(in.FD, in.OwnUser), key)
	}
	namespace, err := netdev.NamespaceBy(in.FD, in.OwnUser)
	if err != nil {
		return nil, unenterable(err)
	}
	a, err := s.connectDirect(ctx, n, namespace)
	return a, errors.Join(err, namespace.Close())
}

func (s *Service) connect(ctx context.Context, n sandbox.Network, way netdev.Way, key AuthorityKey) (*Attached, error) {
	policy, err := s.Compile(ctx, n)
	if err != nil {
		return nil, err
	}
	a, err := s.prepare(way)
	if err != nil {
		return nil, err
	}
	if err := a.begin(ctx, n, policy, key); err != nil {
		return nil, errors.Join(err, a.Close())
	}
	return a, nil
}

// PrepareProcess makes the device of a sandbox of which it is not known yet what it may
// reach, and by which nothing is reached: what takes longest of ConnectProcess. Begin
// follows, or Close.
func (s *Service) PrepareProcess(in Process) (*Attached, error) {
	return s.prepare(netdev.By(in.FD, in.OwnUser))
}

// Begin gives a sandbox whose device was made ahead its network. It is called once; after
// a failure only Close is left.
func (a *Attached) Begin(ctx context.Context, n sandbox.Network, key AuthorityKey) error {
	policy, err := a.service.Compile(ctx, n)
	if err != nil {
		return err
	}
	return a.begin(ctx, n, policy, key)
}

func unenterable(err error) error {
	if !errors.Is(err, fs.ErrPermission) {
		return err
	}
	return &sandbox.Error{Class: sandbox.Unavailable, Field: "network.mode", Reason: "this user may not make a device in the sandbox's network namespace",
		Remedy: "run as root, or use the network none", Err: err}
}

// Accepts refuses the filtered modes of who has no service, which is nil, and that of the
// kernel of who is not root.
func (s *Service) Accepts(n sandbox.Network) error {
	if s == nil && n.Mode.Filtered() {
		return &sandbox.Error{Class: sandbox.Unsupported, Field: "network.mode", Reason: "this driver was made without a network", Remedy: "use none"}
	}
	if n.Mode == sandbox.NatNetwork && os.Geteuid() != 0 {
		return &sandbox.Error{Class: sandbox.Unavailable, Field: "network.mode", Reason: "only root may have the kernel translate addresses", Remedy: "use the network egress, or run as root"}
	}
	return nil
}

// SetNetwork changes what a sandbox may reach, as sandbox.NetworkSetter says. Nil is one
// that is on no network of a service's.
func (a *Attached) SetNetwork(ctx context.Context, n sandbox.Network) error {
	if err := (sandbox.Spec{Network: n}).Validate(); err != nil {
		return err
	}
	if a == nil || n.Mode != a.mode() {
		return &sandbox.Error{Class: sandbox.Unsupported, Field: "network.mode", Reason: "the mode of a sandbox that lives does not change",
			Remedy: "make another sandbox, or keep the mode and change what it allows"}
	}
	policy, err := a.service.Compile(ctx, n)
	if err != nil {
		return err
	}
	return a.set(ctx, n, policy)
}

// Network is what the sandbox may reach now. Nil is one that is on no network of a
// service's.
func (a *Attached) Network() sandbox.Network {
	if a == nil {
		return sandbox.Network{}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.network
}

func (a *Attached) mode() sandbox.NetworkMode {
	if a.directly() != nil {
		return sandbox.NatNetwork
	}
	return sandbox.EgressNetwork
}

// Leave is Close of what may be nil.
func (a *Attached) Leave() error {
	if a == nil {
		return nil
	}
	return a.Close()
}
