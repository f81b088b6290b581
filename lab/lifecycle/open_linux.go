package lifecycle

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
)

// open makes a contender and says its version.
func (f *field) open(ctx context.Context, name string) (contender, string, error) {
	switch name {
	case nameCell:
		return newCells(filepath.Join(f.dir, name), f.root, ahead), "driver/cell, embedded, with namespaces and cgroups made ahead", nil
	case nameFresh:
		return newCells(filepath.Join(f.dir, name), f.root, 0), "the same with nothing made ahead", nil
	case nameNear:
		return inProcess{newCells(filepath.Join(f.dir, name), f.root, ahead)}, "the same as the first, through the guest service in this program", nil
	case nameService:
		return services{newCells(filepath.Join(f.dir, name), f.root, ahead)}, "the same as the first, through the guest service over its wire", nil
	}
	return f.openPeer(ctx, name)
}

func (f *field) openPeer(ctx context.Context, name string) (contender, string, error) {
	path, err := exec.LookPath(name)
	if err != nil {
		return nil, "", err
	}
	found, err := version(ctx, path)
	if err != nil {
		return nil, "", err
	}
	if name == nameBwrap {
		return bwrap{f.launcher, path, f.root}, found, nil
	}
	if os.Geteuid() != 0 {
		return nil, found, errors.New("its bundle is written for root")
	}
	o, err := newOCI(f.launcher, f.dir, name, path, f.root)
	return o, found, err
}
