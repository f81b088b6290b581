package image

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"aether/sandbox"
)

// hostCheck is how long an answer about the host is good for: looking at all
// inputs takes longer than making a sandbox.
const hostCheck = time.Second

type hostCache struct {
	root    Root
	checked time.Time
}

// resolveHost gives the host's own system: a skeleton that is made once for each
// state of the host, with the host's system directories shown over it.
func (s *Store) resolveHost(ctx context.Context) (Root, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.host.checked.IsZero() || time.Since(s.host.checked) > hostCheck {
		root, err := s.lookAtHost(ctx)
		if err != nil {
			return Root{}, err
		}
		s.host = hostCache{root, time.Now()}
	}
	root := s.host.root
	root.Layers, root.Binds, root.Config = slices.Clone(root.Layers), slices.Clone(root.Binds), root.Config.clone()
	return root, nil
}

func (s *Store) lookAtHost(ctx context.Context) (Root, error) {
	if root, ok := s.loadStamp(); ok {
		return root, nil
	}
	plan, err := planHost(s.hostRoot)
	if err != nil {
		return Root{}, err
	}
	sum := plan.sum()
	name := hex.EncodeToString(sum[:])
	root := Root{Digest: "sha256:" + name, Layers: []string{s.layerDir(name)}, Binds: plan.binds, Config: hostConfig()}
	// Taken before the files are read: what changes meanwhile is seen next time.
	stamp, err := stampOf(plan, root)
	if err != nil {
		return Root{}, err
	}
	if err := s.ensureDir(ctx, name, plan.build); err != nil {
		return Root{}, fmt.Errorf("host skeleton: %w", err)
	}
	return root, s.saveStamp(ctx, stamp)
}

func hostConfig() Config {
	config := plainConfig()
	config.User, config.WorkDir = userName, userHome
	return config
}

// systemDirs are what programs of the host are loaded from. Where they are links
// into /usr, the skeleton has the same links.
var systemDirs = []string{"usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32"}

// planSystem finds which system directories are links and which are shown.
func (p *hostPlan) planSystem() error {
	for _, name := range systemDirs {
		source := filepath.Join(p.root, name)
		info, err := os.Lstat(source)
		switch {
		case errors.Is(err, os.ErrNotExist):
			continue
		case err != nil:
			return err
		case info.IsDir():
			p.addDir(name, 0o755)
			p.binds = append(p.binds, Bind{Source: source, Target: "/" + name})
		default:
			if err := p.addLink(name); err != nil {
				return err
			}
		}
	}
	if len(p.binds) == 0 {
		return &sandbox.Error{Class: sandbox.Unavailable, Reason: "this host has no /usr to show", Remedy: "name an image"}
	}
	return nil
}
