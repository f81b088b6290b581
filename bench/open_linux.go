package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
)

// open makes a contender and says its version.
func (f *field) open(ctx context.Context, name, root string) (contender, string, error) {
	switch name {
	case nameCell:
		c, err := newCells(filepath.Join(f.dir, name), root, ahead)
		return c, "host/confine, called directly, with namespaces and cgroups made ahead", err
	case nameFresh:
		c, err := newCells(filepath.Join(f.dir, name), root, 0)
		return c, "the same with nothing made ahead", err
	case nameService:
		c, err := newServices(f.dir, root)
		return c, "driver/cell and the guest service over its wire, with as much made ahead", err
	}
	return f.openPeer(ctx, name, root)
}

func (f *field) openPeer(ctx context.Context, name, root string) (contender, string, error) {
	path, err := exec.LookPath(name)
	if err != nil {
		return nil, "", err
	}
	found, err := version(ctx, path)
	if err != nil {
		return nil, "", err
	}
	if name == nameBwrap {
		return bwrap{f.launcher, path, root}, found, nil
	}
	if os.Geteuid() != 0 {
		return nil, found, errors.New("its bundle is written for root")
	}
	o, err := newOCI(f.launcher, f.dir, name, path, root)
	return o, found, err
}
