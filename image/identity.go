package image

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
)

// identityDepth is how far below the host's system directories it is looked for changes:
// to where packages of an interpreter are, as /usr/local/lib/python3.12/dist-packages.
const identityDepth = 4

// packageLists change with every package that the host installs, updates or removes.
var packageLists = []string{"var/lib/dpkg/status", "var/lib/rpm/rpmdb.sqlite", "var/lib/rpm/Packages", "usr/lib/sysimage/rpm/rpmdb.sqlite",
	"lib/apk/db/installed", "var/lib/pacman/local"}

// Identity names what sandboxes of an image are made of, for those who keep what came of
// it. It is the digest; for the host, whose directories are shown as they are, also the
// times of those directories and of the list of its packages. A file of the host that is
// written in place is not noticed. It is empty for a plain directory, whose content may
// change at any time. Errors: those of Resolve.
func (s *Store) Identity(ctx context.Context, ref string) (string, error) {
	root, err := s.Resolve(ctx, ref, nil)
	if err != nil || root.Digest == "" || len(root.Binds) == 0 {
		return root.Digest, err
	}
	watched := slices.Clone(packageLists)
	for _, bind := range root.Binds {
		below, err := directoriesBelow(ctx, bind.Source)
		if err != nil {
			return "", fmt.Errorf("image %.200q: %w", ref, err)
		}
		watched = append(watched, below...)
	}
	for i, name := range watched {
		watched[i] = strings.TrimPrefix(name, s.hostRoot)
	}
	state, err := stateOf(s.hostRoot, watched)
	if err != nil {
		return "", fmt.Errorf("image %.200q: %w", ref, err)
	}
	return root.Digest + " host:" + state, nil
}

// IdentityIn is Identity in a store that is opened when it is needed; op says who asks.
func IdentityIn(ctx context.Context, op string, open func() (*Store, error), ref string) (string, error) {
	store, err := open()
	if err != nil {
		return "", fmt.Errorf("%s: %w", op, err)
	}
	identity, err := store.Identity(ctx, ref)
	if err != nil {
		return "", fmt.Errorf("%s: %w", op, err)
	}
	return identity, nil
}

// directoriesBelow lists a directory and those below it in order, but what is shared
// between architectures: that changes with packages alone.
func directoriesBelow(ctx context.Context, root string) (list []string, err error) {
	top := strings.Count(root, "/")
	err = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission):
			return fs.SkipDir // a host changes while one looks
		case err != nil:
			return err
		case !entry.IsDir():
			return nil
		case path == filepath.Join(root, "share"):
			return fs.SkipDir
		}
		list = append(list, path)
		if strings.Count(path, "/")-top >= identityDepth {
			return fs.SkipDir
		}
		return nil
	})
	return list, err
}
