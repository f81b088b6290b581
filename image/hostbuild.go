package image

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"aether/internal/host/layerfs"
)

// maxHostFile bounds what is copied of one file: essentials are small.
const maxHostFile = 16 << 20

// privateKey marks a key that somebody left among the certificates.
var privateKey = []byte("PRIVATE KEY-----")

// build makes the skeleton in dir, which is empty.
func (p *hostPlan) build(dir string) error {
	tree, err := layerfs.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(p.buildIn(tree), tree.Close())
}

func (p *hostPlan) buildIn(tree *layerfs.Tree) error {
	for _, item := range p.items {
		if err := p.make(tree, item); err != nil {
			return fmt.Errorf("%s: %w", item.name, err)
		}
	}
	for _, item := range slices.Backward(p.items) {
		if item.mode.IsDir() {
			if err := tree.Set(item.name, item.meta()); err != nil {
				return err
			}
		}
	}
	return nil
}

func (i hostItem) meta() layerfs.Meta {
	meta := layerfs.Meta{UID: i.id, GID: i.id, Mode: i.mode, ModTime: time.Unix(0, 0)}
	if i.source != nil {
		meta.ModTime = i.source.ModTime()
	}
	return meta
}

func (p *hostPlan) make(tree *layerfs.Tree, item hostItem) error {
	switch {
	case item.mode.IsDir():
		return tree.Mkdir(item.name)
	case item.mode.Type() == fs.ModeSymlink:
		return tree.Symlink(item.target, item.name)
	}
	text := []byte(item.text)
	if item.source != nil {
		var ok bool
		var err error
		if text, ok, err = p.read(item); !ok {
			return err
		}
	}
	if err := tree.File(item.name, bytes.NewReader(text)); err != nil {
		return err
	}
	return tree.Set(item.name, item.meta())
}

// read gives the content of a host file. A file that has gone, is no longer the
// one that was looked at, is too large or holds a private key is left out.
func (p *hostPlan) read(item hostItem) (text []byte, ok bool, err error) {
	file, err := os.Open(filepath.Join(p.root, item.name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil || !os.SameFile(info, item.source) || info.Mode().Perm()&0o004 == 0 {
		return nil, false, err
	}
	text, err = io.ReadAll(io.LimitReader(file, maxHostFile+1))
	if err != nil || len(text) > maxHostFile || bytes.Contains(text, privateKey) {
		return nil, false, err
	}
	return text, true, nil
}
